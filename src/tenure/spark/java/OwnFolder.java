package tenure.spark;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.util.functional.FutureIO;

/**
 * A run directory in an object store, as the driver knows it that runs the query there: listed once, its small files
 * read at the same time. Spark asks for each file alone, one after the other, and two or three times.
 *
 * Promise: no answer differs from the store's while this JVM is the only writer of the folder outside of `state/`. Below
 * `state/`, where executors write, a known file is there, and nothing is said of the others. A put or removal that
 * failed ends the knowledge of its folder: the store answers from then on.
 */
public final class OwnFolder {
    private static final int THREADS = 8;
    private static final int SMALL = 1 << 20; // bytes of a file that is kept
    private static final int MOST = 16 << 20; // bytes that are kept of a folder; the oldest go first
    private static final Map FOLDERS = new ConcurrentHashMap(); // the folder with a slash behind it -> OwnFolder

    private final FileSystem files;
    private final String folder;
    private final TreeMap known = new TreeMap(); // path -> FileStatus; guarded by this
    private final Map contents = new LinkedHashMap(); // path -> byte[]; guarded by this
    private long kept = 0; // bytes of the contents; guarded by this

    private OwnFolder(FileSystem files, String folder) {
        this.files = files;
        this.folder = folder;
    }

    /** Know the folder from now on, until `release`. */
    public static void hold(String url, Configuration conf) throws IOException {
        Path path = new Path(url);
        FileSystem files = path.getFileSystem(conf);
        OwnFolder made = new OwnFolder(files, files.makeQualified(path) + "/");
        try {
            made.look(path);
        } catch (FileNotFoundException none) {
            made.known.clear(); // the query begins
        }
        FOLDERS.put(made.folder, made);
    }

    /** Know nothing of the folder. */
    public static void release(String url) {
        FOLDERS.remove(url + "/");
    }

    /** The folder that has the path; null: none of those. */
    static OwnFolder of(Path path) {
        String text = path.toString();
        for (Iterator each = FOLDERS.values().iterator(); each.hasNext();) {
            OwnFolder one = (OwnFolder) each.next();
            if (text.startsWith(one.folder)) {
                return one;
            }
        }
        return null;
    }

    private void look(Path path) throws IOException {
        List small = new ArrayList();
        long bytes = 0;
        RemoteIterator each = files.listFiles(path, true);
        while (each.hasNext()) {
            FileStatus file = (FileStatus) each.next();
            known.put(file.getPath().toString(), file);
            boolean isRead = !file.getPath().getName().endsWith(".sst"); // Spark copies tables past this class
            if (isRead && file.getLen() <= SMALL && bytes + file.getLen() <= MOST) {
                bytes += file.getLen();
                small.add(file);
            }
        }
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        try {
            List read = new ArrayList();
            for (Iterator one = small.iterator(); one.hasNext();) {
                read.add(pool.submit(reading((FileStatus) one.next())));
            }
            for (int i = 0; i < read.size(); i++) {
                keep(((FileStatus) small.get(i)).getPath(), (byte[]) ((Future) read.get(i)).get());
            }
        } catch (ExecutionException error) {
            throw new IOException(error.getCause());
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new IOException(stopped);
        } finally {
            pool.shutdownNow();
        }
    }

    private Callable reading(final FileStatus file) {
        return new Callable() {
            public Object call() throws IOException {
                byte[] data = new byte[(int) file.getLen()];
                FSDataInputStream stream = opened(file);
                try {
                    stream.readFully(0, data);
                } finally {
                    stream.close();
                }
                return data;
            }
        };
    }

    /** Open a file; one that was listed without a look before: its client knows the length and the version. */
    private FSDataInputStream opened(FileStatus file) throws IOException {
        FutureDataInputStreamBuilder builder = files.openFile(file.getPath());
        builder.withFileStatus(file);
        builder.opt("fs.option.openfile.read.policy", "whole-file");
        return (FSDataInputStream) FutureIO.awaitFuture((Future) builder.build());
    }

    private synchronized void keep(Path path, byte[] data) {
        if (data.length > SMALL) {
            return;
        }
        drop(path.toString());
        contents.put(path.toString(), data);
        kept += data.length;
        for (Iterator each = contents.values().iterator(); kept > MOST && each.hasNext();) {
            kept -= ((byte[]) each.next()).length;
            each.remove();
        }
    }

    private void drop(String path) {
        byte[] data = (byte[]) contents.remove(path);
        kept -= data == null ? 0 : data.length;
    }

    /** Whether a file that is not known is not there. */
    boolean knowsAll(Path path) {
        String relative = path.toString().substring(folder.length());
        return !relative.equals("state") && !relative.startsWith("state/");
    }

    /** Whether a file or folder is there; null: ask the store. */
    synchronized Boolean exists(Path path) {
        String below = (String) known.ceilingKey(path + "/");
        if (known.containsKey(path.toString()) || (below != null && below.startsWith(path + "/"))) {
            return Boolean.TRUE;
        }
        return knowsAll(path) ? Boolean.FALSE : null;
    }

    /** The files and folders in a folder outside of `state/`. */
    synchronized FileStatus[] list(Path path, PathFilter filter) {
        String prefix = path + "/";
        Map found = new LinkedHashMap(); // name -> FileStatus
        for (Iterator each = known.tailMap(prefix).entrySet().iterator(); each.hasNext();) {
            Map.Entry one = (Map.Entry) each.next();
            String text = (String) one.getKey();
            if (!text.startsWith(prefix)) {
                break;
            }
            int end = text.indexOf('/', prefix.length());
            if (end < 0) {
                found.put(text, one.getValue());
            } else {
                String name = text.substring(0, end);
                found.put(name, new FileStatus(0, true, 1, 0, 0, new Path(name)));
            }
        }
        List fitting = new ArrayList();
        for (Iterator each = found.values().iterator(); each.hasNext();) {
            FileStatus one = (FileStatus) each.next();
            if (filter.accept(one.getPath())) {
                fitting.add(one);
            }
        }
        return (FileStatus[]) fitting.toArray(new FileStatus[0]);
    }

    FSDataInputStream open(Path path) throws IOException {
        FileStatus file;
        byte[] data;
        synchronized (this) {
            file = (FileStatus) known.get(path.toString());
            data = (byte[]) contents.get(path.toString());
        }
        if (data != null) {
            return new FSDataInputStream(new Bytes(data));
        }
        return file == null ? files.open(path) : opened(file);
    }

    /** Note a file that was put. */
    synchronized void put(Path path, Copy copy) {
        known.put(path.toString(), new FileStatus(copy.length, false, 1, 0, System.currentTimeMillis(), path));
        drop(path.toString());
        if (copy.data != null) {
            keep(path, copy.data.toByteArray());
        }
    }

    /** Note that it is unknown what a call that failed has done. */
    void lose() {
        FOLDERS.remove(folder, this);
    }

    /** Note that a file or folder was removed. */
    synchronized void removed(Path path) {
        List gone = new ArrayList();
        for (Iterator each = known.tailMap(path.toString()).keySet().iterator(); each.hasNext();) {
            String text = (String) each.next();
            if (!text.startsWith(path.toString())) {
                break;
            }
            if (text.equals(path.toString()) || text.startsWith(path + "/")) {
                gone.add(text);
            }
        }
        for (Iterator each = gone.iterator(); each.hasNext();) {
            String text = (String) each.next();
            known.remove(text);
            drop(text);
        }
    }

    /** Counts the bytes of a put, and keeps a copy of them if asked for. */
    static final class Copy extends FilterOutputStream {
        long length = 0;
        ByteArrayOutputStream data; // null: not kept, or too long

        Copy(OutputStream out, boolean keeps) {
            super(out);
            data = keeps ? new ByteArrayOutputStream() : null;
        }

        public void write(int one) throws IOException {
            out.write(one);
            note(1);
            if (data != null) {
                data.write(one);
            }
        }

        public void write(byte[] some, int from, int count) throws IOException {
            out.write(some, from, count);
            note(count);
            if (data != null) {
                data.write(some, from, count);
            }
        }

        private void note(int count) {
            length += count;
            if (length > SMALL) {
                data = null;
            }
        }
    }

    /** A kept file. */
    static final class Bytes extends FSInputStream {
        private final byte[] data;
        private int at = 0;

        Bytes(byte[] data) {
            this.data = data;
        }

        public int read() {
            return at < data.length ? data[at++] & 0xff : -1;
        }

        public int read(byte[] some, int from, int count) {
            if (count > 0 && at >= data.length) {
                return -1;
            }
            int taken = Math.min(count, data.length - at);
            System.arraycopy(data, at, some, from, taken);
            at += taken;
            return taken;
        }

        public int available() {
            return data.length - at;
        }

        public void seek(long to) throws IOException {
            if (to < 0 || to > data.length) {
                throw new EOFException("there is no byte " + to + " of " + data.length);
            }
            at = (int) to;
        }

        public long getPos() {
            return at;
        }

        public boolean seekToNewSource(long to) {
            return false;
        }
    }
}
