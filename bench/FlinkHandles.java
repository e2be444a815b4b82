import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.HighAvailabilityOptions;
import org.apache.flink.runtime.persistence.IntegerResourceVersion;
import org.apache.flink.runtime.persistence.RetrievableStateStorageHelper;
import org.apache.flink.runtime.state.RetrievableStreamStateHandle;
import org.apache.flink.runtime.util.ZooKeeperUtils;
import org.apache.flink.runtime.zookeeper.ZooKeeperStateHandleStore;
import org.apache.flink.shaded.curator5.org.apache.curator.framework.CuratorFramework;

/**
 * Flink's own handle store as a contender of bench/handles.py: HOSTS FOLDER synced|plain. A line "add 50" on standard
 * input is answered by "ok NANOSECONDS"; what goes wrong ends the process with its stack. Payloads and names are those
 * of bench/handles_side.py. "synced" forces each file and its folder to the disk, which Flink does not do.
 */
public final class FlinkHandles {
    private final TreeMap<Integer, Integer> changes = new TreeMap<>();
    private final Path folder;
    private final CuratorFramework client;
    private final RetrievableStateStorageHelper<byte[]> storage;
    private final ZooKeeperStateHandleStore<byte[]> store;
    private int next;

    private FlinkHandles(String hosts, String files, boolean synced) throws Exception {
        Configuration conf = new Configuration();
        conf.set(HighAvailabilityOptions.HA_MODE, "zookeeper");
        conf.set(HighAvailabilityOptions.HA_ZOOKEEPER_QUORUM, hosts);
        conf.set(HighAvailabilityOptions.HA_CLUSTER_ID, synced ? "/synced" : "/plain");
        conf.set(HighAvailabilityOptions.HA_STORAGE_PATH, "file://" + files);
        folder = Path.of(files);
        client = ZooKeeperUtils.startCuratorFramework(conf, error -> { throw new IllegalStateException(error); })
                .asCuratorFramework();
        RetrievableStateStorageHelper<byte[]> plain = ZooKeeperUtils.createFileSystemStateStorage(conf, "state");
        storage = !synced ? plain : state -> {
            var handle = (RetrievableStreamStateHandle<byte[]>) plain.store(state);
            Path file = Path.of(handle.maybeGetPath().orElseThrow().getPath());
            force(file, StandardOpenOption.WRITE);
            force(file.getParent(), StandardOpenOption.READ);
            return handle;
        };
        store = ZooKeeperUtils.createZooKeeperStateHandleStore(client, "/handles", storage);
    }

    private long run(String word, int count) throws Exception {
        List<Integer> old = new ArrayList<>(changes.keySet());
        switch (word) {
            case "add":
            case "add_drop": {
                byte[][] payloads = new byte[count][];
                for (int i = 0; i < count; i++) payloads[i] = payload(next + i, 0);
                long start = System.nanoTime();
                for (int i = 0; i < count; i++) {
                    store.addAndLock(name(next + i), payloads[i]);
                    if (word.equals("add_drop")) check(store.releaseAndTryRemove(name(old.get(i))), "not removed");
                }
                long took = System.nanoTime() - start;
                for (int i = 0; i < count; i++) changes.put(next++, 0);
                if (word.equals("add_drop")) old.subList(0, count).forEach(changes::remove);
                return took;
            }
            case "replace": {
                List<Integer> newest = old.subList(old.size() - count, old.size());
                byte[][] payloads = new byte[count][];
                for (int i = 0; i < count; i++) payloads[i] = payload(newest.get(i), changes.get(newest.get(i)) + 1);
                long start = System.nanoTime();
                for (int i = 0; i < count; i++) {
                    int version = changes.get(newest.get(i)); // what its users ask the server for, with exists()
                    store.replace(name(newest.get(i)), IntegerResourceVersion.valueOf(version), payloads[i]);
                }
                long took = System.nanoTime() - start;
                newest.forEach(number -> changes.merge(number, 1, Integer::sum));
                return took;
            }
            case "get_all": { // by a new leader, which has no locks yet; giving them up is not counted
                var reader = ZooKeeperUtils.createZooKeeperStateHandleStore(client, "/handles", storage);
                TreeMap<String, byte[]> found = new TreeMap<>();
                long start = System.nanoTime();
                for (var handle : reader.getAllAndLock()) found.put(handle.f1, handle.f0.retrieveState());
                long took = System.nanoTime() - start;
                reader.releaseAll();
                check(found.size() == changes.size(), found.size() + " handles, not " + changes.size());
                changes.forEach((number, change) ->
                        check(Arrays.equals(found.get("/" + name(number)), payload(number, change)), "payload of " + number));
                return took;
            }
            case "remove_all": {
                long start = System.nanoTime();
                for (int number : old) check(store.releaseAndTryRemove(name(number)), "not removed: " + number);
                long took = System.nanoTime() - start;
                changes.clear();
                check(store.getAllHandles().isEmpty(), "handles are left");
                try (var files = Files.walk(folder)) {
                    check(files.noneMatch(Files::isRegularFile), "files are left");
                }
                return took;
            }
            default:
                throw new IllegalArgumentException(word);
        }
    }

    private static String name(int number) {
        return String.format("%019d", number);
    }

    private static byte[] payload(int number, int change) {
        String word = number + "." + change + ";";
        return Arrays.copyOf(word.repeat(1024 / word.length() + 1).getBytes(StandardCharsets.US_ASCII), 1024);
    }

    private static void force(Path path, StandardOpenOption how) throws Exception {
        try (FileChannel channel = FileChannel.open(path, how)) {
            channel.force(true);
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) throw new IllegalStateException(what);
    }

    public static void main(String[] args) throws Exception {
        FlinkHandles flink = new FlinkHandles(args[0], args[1], args[2].equals("synced"));
        System.out.println("ok 0");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line = orders.readLine(); line != null; line = orders.readLine()) {
                String[] words = line.split(" ");
                System.out.println("ok " + flink.run(words[0], Integer.parseInt(words[1])));
            }
            flink.client.close();
            System.exit(0);
        } catch (Exception wrong) {
            wrong.printStackTrace();
            System.exit(1); // curator's threads would keep the process
        }
    }
}
