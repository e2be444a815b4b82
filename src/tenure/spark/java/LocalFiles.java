package tenure.spark;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.attribute.PosixFilePermission;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, but it sets the mode of a file by itself, without starting chmod.
 *
 * A table of RocksDB (SST) is linked where Spark would copy it into the folder of a state store, so that the time of a
 * start does not grow with the state. Both names then share their bytes. RocksDB writes a table once, under a new name,
 * and only ever removes its names; Spark uploads a table under a name that is used once. On another device, and where
 * links are refused, it is copied as before.
 *
 * Where Hive's class stands in the place of Hadoop's (tenure.rename.keeps is true), a file is not moved onto another one:
 * Hive counts on that. A checkpoint's temporary file replaces what is there, as by Spark's own way around that class.
 */
public class LocalFiles extends LocalFileSystem {
    private boolean keeps = false;

    public LocalFiles() {
        super(new Raw());
    }

    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        keeps = conf.getBoolean("tenure.rename.keeps", false);
    }

    public boolean rename(Path from, Path to) throws IOException {
        boolean ofCheckpoint = from.getName().startsWith("." + to.getName() + ".") && from.getName().endsWith(".tmp");
        if (keeps && !ofCheckpoint && isFile(to)) {
            return false;
        }
        return super.rename(from, to);
    }

    public void copyToLocalFile(boolean removes, Path from, Path to) throws IOException {
        if (removes || !from.getName().endsWith(".sst") || !isLinked(from, to)) {
            super.copyToLocalFile(removes, from, to);
        }
    }

    /** Link a file; whether that was possible. What had the name is no longer there: a copy would write into its bytes. */
    private boolean isLinked(Path from, Path to) throws IOException {
        java.nio.file.Path origin = pathToFile(from).toPath();
        java.nio.file.Path target = pathToFile(to).toPath();
        LinkOption[] itself = new LinkOption[] {LinkOption.NOFOLLOW_LINKS};
        if (!Files.isRegularFile(origin, itself) || Files.isDirectory(target, itself)) {
            return false;
        }
        if (Files.isRegularFile(target, itself) && Files.isSameFile(origin, target)) {
            return true;
        }
        Files.deleteIfExists(target);
        try {
            Files.createLink(target, origin);
            return true;
        } catch (IOException other) {
            return false; // another device, or a file system or a user without links: the copy finds the other errors
        } catch (UnsupportedOperationException none) {
            return false;
        }
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            int mode = permission.toShort();
            if ((mode & ~0777) != 0) { // Java knows no sticky bit
                super.setPermission(path, permission);
                return;
            }
            PosixFilePermission[] bits = PosixFilePermission.values(); // owner's read first, as in a mode
            Set granted = new HashSet(); // Janino compiles this: no inference of type arguments
            for (int i = 0; i < bits.length; i++) {
                if ((mode & (0400 >> i)) != 0) {
                    granted.add(bits[i]);
                }
            }
            Files.setPosixFilePermissions(pathToFile(path).toPath(), granted);
        }
    }
}
