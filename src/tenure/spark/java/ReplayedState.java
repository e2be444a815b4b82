package tenure.spark;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.util.Utils;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map$;

/**
 * One version of a state store, which Spark has replayed from its changelogs, as a snapshot that is not in the storage yet.
 *
 * Spark's own class for such a store does all work: it loads the version as a takeover would, and writes the snapshot as a
 * commit would. So a later load of that version, or of one above, replays only what is above.
 *
 * Promise: `load` only reads the storage. After `put` the snapshot stands under the version and the id of its changelog; its
 * zip comes last, so a `put` that fails leaves tables that nothing names. Only for stores without column families.
 */
public final class ReplayedState {
    private final RocksDB store;
    private final File local;
    private Object snapshot;

    private ReplayedState(RocksDB store, File local) {
        this.store = store;
        this.local = local;
    }

    /** Load a version of the store in a folder. `locals`: an existing folder for files that go with `close`. */
    public static ReplayedState load(String folder, long version, String id, SparkSession spark, String locals)
            throws Exception {
        StateStoreConf conf = new StateStoreConf(spark.sessionState().conf(), Map$.MODULE$.empty());
        File local = Files.createTempDirectory(new File(locals).toPath(), "replayed-").toFile();
        Option none = Option.empty();
        RocksDB store = new RocksDB(
                folder, RocksDBConf.apply(conf), local, spark.sessionState().newHadoopConf(), "tenure-replay", false, true, 0, none, none);
        ReplayedState made = new ReplayedState(store, local);
        try {
            Option named = Option.apply(id);
            store.load(version, named, true, false);
            Class[] kinds = new Class[] {long.class, Option.class};
            Tuple2 found = (Tuple2) call(store, "createSnapshot", kinds, new Object[] {Long.valueOf(version), named});
            made.snapshot = ((Option) found._1()).get();
            return made;
        } catch (Exception error) {
            made.close();
            throw error;
        }
    }

    /** Write the snapshot. */
    public void put() throws Exception {
        call(store, "uploadSnapshot", new Class[] {snapshot.getClass()}, new Object[] {snapshot});
    }

    /** Release the store, and remove its local files. */
    public void close() {
        try {
            store.close();
        } finally {
            Utils.deleteRecursively(local);
        }
    }

    private static Object call(RocksDB store, String name, Class[] kinds, Object[] given) throws Exception {
        Method method = RocksDB.class.getDeclaredMethod(name, kinds);
        method.setAccessible(true);
        try {
            return method.invoke(store, given);
        } catch (InvocationTargetException error) {
            throw new IOException(error.getCause());
        }
    }
}
