package tenure.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.Serializable;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.util.Progressable;
import org.apache.spark.TaskContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;
import org.slf4j.LoggerFactory;

/**
 * Spark's commit of a job whose tasks put each file where it stays, once.
 *
 * Promise: the list of a job has the files of the attempts that Spark counted, one attempt for each task, and no other
 * file. The name of a file carries the attempt of its task and the job, so no two attempts share a file. A task whose
 * file was not put fails. A file without rows is not put. Only the driver that ran the job has the list.
 * Not promised: that the files of a task that was lost go away.
 *
 * The path of the job has the scheme of `Once`, the file system below.
 */
public class StagedOutput extends FileCommitProtocol implements Serializable {
    public static final String AS = "tenure.staged.as"; // the option that names the list of a job
    public static final String PREFIX = "tenure.staged.prefix"; // of each file; the folder is not the job's alone then

    private static final Map LISTS = new ConcurrentHashMap(); // name -> list; in the driver

    private final String job;
    private final String folder;
    private final transient List committed = new ArrayList(); // what tasks have told the driver so far
    private transient List paths; // of the files of this task, relative to the folder

    public StagedOutput(String job, String folder, boolean dynamicPartitionOverwrite) {
        this.job = job;
        this.folder = folder;
    }

    /** The list of a job, which is then forgotten: a line for each file, after a line `again` where tasks ran twice. */
    public static String take(String name) {
        return (String) LISTS.remove(name);
    }

    public void setupJob(JobContext context) {
        return;
    }

    public void commitJob(JobContext context, scala.collection.immutable.Seq messages) {
        StringBuilder list = new StringBuilder();
        boolean again = false;
        scala.collection.Iterator each = messages.iterator();
        while (each.hasNext()) {
            String[] told = (String[]) ((FileCommitProtocol.TaskCommitMessage) each.next()).obj();
            again = again || told[0].length() > 0;
            list.append(told[1]);
        }
        LISTS.put(context.getConfiguration().get(AS), (again ? "again\n" : "") + list);
    }

    public void abortJob(JobContext context) {
        if (context.getConfiguration().get(PREFIX, "").isEmpty()) {
            Once.remove(new Path(folder), context.getConfiguration());
            return;
        }
        for (Iterator each = committed.iterator(); each.hasNext();) {
            String[] lines = ((String) each.next()).split("\n");
            for (int i = 0; i < lines.length; i++) {
                String[] parts = lines[i].split(" ", 4); // as commitTask writes them
                if (parts.length == 4) {
                    Once.remove(new Path(folder + "/" + parts[3]), context.getConfiguration());
                }
            }
        }
    }

    /** In the driver, for each task that Spark counts. */
    public void onTaskCommit(FileCommitProtocol.TaskCommitMessage message) {
        committed.add(((String[]) message.obj())[1]);
    }

    public void setupTask(TaskAttemptContext context) {
        paths = new ArrayList();
    }

    public String newTaskTempFile(TaskAttemptContext context, scala.Option directory, FileNameSpec name) {
        int task = context.getTaskAttemptID().getTaskID().getId();
        int attempt = context.getTaskAttemptID().getId();
        String prefix = name.prefix() + context.getConfiguration().get(PREFIX, "");
        String file = prefix + String.format("part-%05d-%d-", new Object[] {task, attempt}) + job + name.suffix();
        String path = directory.isDefined() ? directory.get() + "/" + file : file;
        paths.add(path);
        return folder + "/" + path;
    }

    public String newTaskTempFile(TaskAttemptContext context, scala.Option directory, String suffix) {
        return newTaskTempFile(context, directory, new FileNameSpec("", suffix)); // abstract before Spark 4.1
    }

    public String newTaskTempFileAbsPath(TaskAttemptContext context, String directory, String suffix) {
        return newTaskTempFileAbsPath(context, directory, new FileNameSpec("", suffix)); // abstract before Spark 4.1
    }

    public String newTaskTempFileAbsPath(TaskAttemptContext context, String directory, FileNameSpec name) {
        throw new UnsupportedOperationException("staged output has one folder");
    }

    public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext context) throws IOException {
        StringBuilder list = new StringBuilder();
        for (Iterator each = paths.iterator(); each.hasNext();) {
            String path = (String) each.next();
            Put put = Once.taken(new Path(folder + "/" + path));
            if (put == null) {
                throw new IOException(folder + "/" + path + " was not put");
            }
            if (!put.bare) {
                list.append(put.size).append(' ').append(put.at).append(' ');
                list.append(Base64.getEncoder().encodeToString(put.footer)).append(' ').append(path).append('\n');
            }
        }
        TaskContext task = TaskContext.get();
        boolean again = task != null && (task.attemptNumber() > 0 || task.stageAttemptNumber() > 0);
        return new FileCommitProtocol.TaskCommitMessage(new String[] {again ? "again" : "", list.toString()});
    }

    public void abortTask(TaskAttemptContext context) {
        for (Iterator each = paths.iterator(); each.hasNext();) {
            Path path = new Path(folder + "/" + each.next());
            Once.taken(path);
            Once.remove(path, context.getConfiguration());
        }
    }

    /** A file that was put. */
    static class Put {
        final long size;
        final long at = System.currentTimeMillis();
        final byte[] footer; // the end of the file, from its footer on; empty: the footer is too long to be kept
        final boolean bare; // it had no rows, and was not put

        Put(long size, byte[] footer, boolean bare) {
            this.size = size;
            this.footer = footer;
            this.bare = bare;
        }
    }

    /**
     * A file system to write new files to, each by one create of the file system below it, whose scheme is the part
     * after the `+` of this one's: no look before, no look after. What was written is known here.
     */
    public static class Once extends FileSystem {
        private static final Map PUTS = new ConcurrentHashMap(); // path -> Put; of this process's tasks

        private URI uri;
        private Path home;

        static Put taken(Path path) {
            return (Put) PUTS.remove(path.toString());
        }

        static void remove(Path path, Configuration conf) {
            try {
                Path below = below(path);
                below.getFileSystem(conf).delete(below, true);
            } catch (IOException error) {
                LoggerFactory.getLogger(StagedOutput.class).warn("{} stays: {}", path, error.toString());
            }
        }

        static Path below(Path path) {
            URI uri = path.toUri();
            String scheme = uri.getScheme().substring(uri.getScheme().indexOf('+') + 1);
            return new Path(scheme, uri.getAuthority(), uri.getPath());
        }

        public void initialize(URI name, Configuration conf) throws IOException {
            super.initialize(name, conf);
            uri = name.getAuthority() == null ? URI.create(name.getScheme() + ":///") : name.resolve("/");
            home = new Path(uri);
        }

        public URI getUri() {
            return uri;
        }

        public Path getWorkingDirectory() {
            return home;
        }

        public void setWorkingDirectory(Path path) {
            throw new UnsupportedOperationException("paths are absolute");
        }

        public FSDataOutputStream create(
                Path path, FsPermission mode, boolean overwrite, int buffer, short copies, long block, Progressable told)
                throws IOException {
            Path below = below(path);
            FileSystem files = below.getFileSystem(getConf());
            FSDataOutputStreamBuilder builder = files.createFile(below);
            builder.recursive();
            builder.overwrite(true); // its name is new
            builder.opt("fs.s3a.create.performance", true);
            return new FSDataOutputStream(new Tail(path, (FSDataOutputStream) builder.build(), files, below), null);
        }

        public FileStatus getFileStatus(Path path) throws IOException {
            Put put = (Put) PUTS.get(path.toString());
            if (put == null) {
                throw new FileNotFoundException(path + " was not put here");
            }
            return new FileStatus(put.size, false, 1, getDefaultBlockSize(path), put.at, path);
        }

        public long getDefaultBlockSize(Path path) {
            return 128 * 1024 * 1024;
        }

        public FileStatus[] listStatus(Path path) throws IOException {
            throw new FileNotFoundException(path + " is not known here");
        }

        public boolean mkdirs(Path path, FsPermission mode) {
            return true;
        }

        public boolean delete(Path path, boolean recursive) throws IOException {
            Path below = below(path);
            return below.getFileSystem(getConf()).delete(below, recursive);
        }

        public FSDataInputStream open(Path path, int buffer) {
            throw new UnsupportedOperationException("new files only");
        }

        public FSDataOutputStream append(Path path, int buffer, Progressable told) {
            throw new UnsupportedOperationException("new files only");
        }

        public boolean rename(Path from, Path to) {
            throw new UnsupportedOperationException("a file stays where it is put");
        }
    }

    /** The stream of a new file; it remembers the end, for Parquet's footer. */
    static class Tail extends OutputStream {
        private static final int KEPT = 256 * 1024;
        private static final int MARKS = 8; // the length of the footer, and PAR1
        private static final byte[] PAR1 = {'P', 'A', 'R', '1'};

        private final Path path;
        private final FSDataOutputStream data;
        private final FileSystem files;
        private final Path below;
        private byte[] end = new byte[8192];
        private int length = 0; // of the bytes in `end`
        private long size = 0;
        private boolean closed = false;

        Tail(Path path, FSDataOutputStream data, FileSystem files, Path below) {
            this.path = path;
            this.data = data;
            this.files = files;
            this.below = below;
        }

        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        public void write(byte[] bytes, int from, int count) throws IOException {
            data.write(bytes, from, count);
            size += count;
            keep(bytes, from, count);
        }

        public void flush() throws IOException {
            data.flush();
        }

        public void close() throws IOException {
            if (closed) {
                return;
            }
            closed = true;
            long footer = isParquet() ? footer() : 0;
            boolean bare = size == 0 || isParquet() && size == footer + MARKS + 4; // only PAR1 before the footer
            if (bare && data.hasCapability("fs.capability.outputstream.abortable")) {
                data.abort();
            } else {
                data.close();
                if (bare) {
                    files.delete(below, false);
                }
            }
            int last = footer + MARKS <= length ? (int) footer + MARKS : 0;
            Once.PUTS.put(path.toString(), new Put(size, Arrays.copyOfRange(end, length - last, length), bare));
        }

        /** Other formats end with bytes of their own: each ORC file has the same eight before its last. */
        private boolean isParquet() {
            boolean found = length >= MARKS;
            for (int i = 0; found && i < PAR1.length; i++) {
                found = end[length - PAR1.length + i] == PAR1[i];
            }
            return found;
        }

        private long footer() {
            long found = 0;
            for (int i = 0; i < 4; i++) { // little endian
                found |= (end[length - MARKS + i] & 0xFFL) << (8 * i);
            }
            return found;
        }

        /** Remember the end of the file: KEPT bytes at least, if there are so many. */
        private void keep(byte[] bytes, int from, int count) {
            int some = Math.min(count, KEPT);
            if (length + some > 2 * KEPT) {
                System.arraycopy(end, length - KEPT, end, 0, KEPT);
                length = KEPT;
            }
            if (length + some > end.length) {
                end = Arrays.copyOf(end, Math.min(2 * KEPT, Math.max(2 * end.length, length + some)));
            }
            System.arraycopy(bytes, from + count - some, end, length, some);
            length += some;
        }
    }
}
