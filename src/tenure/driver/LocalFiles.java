package tenure.spark;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
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
