package tenure.spark;

import java.io.IOException;
import org.apache.hadoop.fs.Path;

/**
 * The storage's own class of Hadoop, which a driver puts in the place of the class that is named here; but it links the
 * tables of RocksDB that this JVM keeps (`KeptTables`), where Spark would copy them for a state store.
 */
public class TableFiles extends org.apache.hadoop.fs.LocalFileSystem {
    public void copyToLocalFile(boolean removes, Path from, Path to) throws IOException {
        Path origin = removes || !from.getName().endsWith(".sst") ? from : KeptTables.link(from, to);
        if (origin != null) {
            super.copyToLocalFile(removes, origin, to);
        }
    }
}
