package tenure.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Spark's files of a checkpoint in an object store: each file is one put, which the store judges.
 *
 * Promise: a file appears whole, at the close of its stream, or not at all. A close returns only if the store has the
 * file; each other outcome is an exception. A file that must be new is put on the condition that none is there. So a put
 * that a client sent twice, as its answer was lost, is known by the name of the write in the object. Hadoop before 3.4.2
 * has no such condition. There the store is asked for the file before the put. That is enough where one writer puts the
 * same bytes under a name, as in a run directory: a put that is sent twice, or late, changes nothing. Of a folder that
 * the driver holds (`OwnFolder`), the store is asked for nothing else that the driver knows.
 * Not promised: folders. None is made, and a folder without files does not exist; its listing is empty.
 */
public class ObjectFiles implements CheckpointFileManager {
    private static final String WRITE = "tenure-write";
    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
    private static final String ABORTABLE = "fs.capability.outputstream.abortable";

    private final Path root;
    private final FileSystem files;
    private final boolean conditional;

    public ObjectFiles(Path path, Configuration conf) throws IOException {
        root = path;
        files = path.getFileSystem(conf);
        conditional = files.hasPathCapability(path, CONDITIONAL);
        if (!files.hasPathCapability(path, ABORTABLE)) {
            throw new UnsupportedFileSystemException(files.getUri() + " cannot give up a put (hadoop-aws 3.3.2 or newer)");
        }
    }

    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite)
            throws IOException {
        OwnFolder own = OwnFolder.of(path);
        if (!conditional && !overwrite && files.exists(path)) {
            throw taken(path, own);
        }
        String write = conditional ? UUID.randomUUID().toString() : null;
        FSDataOutputStreamBuilder builder = files.createFile(path);
        builder.overwrite(overwrite || !conditional);
        if (conditional) {
            builder.must("fs.s3a.create.performance", true); // no look for what has this name
            builder.must("fs.s3a.create.header." + WRITE, write);
        } else {
            builder.opt("fs.s3a.create.performance", true);
            builder.recursive(); // before 3.3.5 it would look for the folder
        }
        if (conditional && !overwrite) {
            builder.must(CONDITIONAL, true);
        }
        return new Put(files, path, (FSDataOutputStream) builder.build(), write, own);
    }

    private static IOException taken(Path path, OwnFolder own) {
        if (own != null) {
            own.lose(); // another writer has put it
        }
        return new FileAlreadyExistsException(path + " is there");
    }

    public FSDataInputStream open(Path path) throws IOException {
        OwnFolder own = OwnFolder.of(path);
        return own == null ? files.open(path) : own.open(path);
    }

    public FileStatus[] list(Path path, PathFilter filter) throws IOException {
        OwnFolder own = OwnFolder.of(path);
        if (own != null && own.knowsAll(path)) {
            return own.list(path, filter);
        }
        try {
            return files.listStatus(path, filter);
        } catch (FileNotFoundException none) {
            return new FileStatus[0];
        }
    }

    public void mkdirs(Path path) {
        return; // a folder exists by its files
    }

    public boolean exists(Path path) throws IOException {
        OwnFolder own = OwnFolder.of(path);
        Boolean known = own == null ? null : own.exists(path);
        return known == null ? files.exists(path) : known.booleanValue();
    }

    public void delete(Path path) throws IOException {
        OwnFolder own = OwnFolder.of(path);
        boolean gone = false;
        try {
            files.delete(path, true);
            gone = true;
        } catch (FileNotFoundException none) {
            gone = true;
        } finally {
            if (own != null && gone) {
                own.removed(path);
            } else if (own != null) {
                own.lose();
            }
        }
    }

    public boolean isLocal() {
        return false;
    }

    public Path createCheckpointDirectory() {
        return root.makeQualified(files.getUri(), files.getWorkingDirectory());
    }

    /** One put. */
    static class Put extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final FileSystem files;
        private final Path path;
        private final FSDataOutputStream data;
        private final String write; // null: Hadoop puts no name into the object
        private final OwnFolder own; // null: nobody holds the folder
        private final OwnFolder.Copy copy;
        private boolean ended = false;

        Put(FileSystem files, Path path, FSDataOutputStream data, String write, OwnFolder own) {
            this(files, path, data, write, own, new OwnFolder.Copy(data, own != null && own.knowsAll(path)));
        }

        private Put(FileSystem files, Path path, FSDataOutputStream data, String write, OwnFolder own, OwnFolder.Copy copy) {
            super(copy);
            this.files = files;
            this.path = path;
            this.data = data;
            this.write = write;
            this.own = own;
            this.copy = copy;
        }

        public synchronized void close() throws IOException {
            if (ended) {
                return;
            }
            ended = true;
            boolean put = false;
            try {
                judged();
                put = true;
            } finally {
                if (own != null && put) {
                    own.put(path, copy);
                } else if (own != null) {
                    own.lose();
                }
            }
        }

        private void judged() throws IOException {
            try {
                data.close();
            } catch (IOException error) {
                String there = write == null ? null : writeThere(error);
                if (there != null && there.equals(write)) {
                    return; // an earlier try of this put, whose answer was lost
                }
                if (there != null) {
                    FileAlreadyExistsException exists = new FileAlreadyExistsException(path + " is there, by another writer");
                    exists.initCause(error);
                    throw exists;
                }
                throw error;
            }
        }

        public synchronized void cancel() {
            if (!ended) {
                ended = true;
                data.abort();
            }
        }

        /** The write that made the object at the path; empty: an unknown writer; null: none is there, or nobody knows. */
        private String writeThere(IOException error) {
            try {
                byte[] found = (byte[]) files.getXAttrs(path).get("header." + WRITE);
                return found == null ? "" : new String(found, StandardCharsets.UTF_8);
            } catch (FileNotFoundException none) {
                return null;
            } catch (IOException unknown) {
                error.addSuppressed(unknown);
                return null;
            }
        }
    }
}
