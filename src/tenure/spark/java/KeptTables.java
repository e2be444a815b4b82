package tenure.spark;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.CopyOption;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.functional.FutureIO;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tables of RocksDB (SST) that this JVM has fetched from the storage onto its disk, once each, for any number of loads.
 *
 * Spark names each table that it uploads by a UUID, and never changes it. So a name means the same bytes in each run
 * directory. A holder says which tables it needs, where they are, and how many bytes the snapshot says that they have.
 *
 * Promise: a table is linked only if it is held, and has the number of bytes that its snapshot names. It gets its name
 * after its last byte. Where anything fails, the caller is sent to the storage. A table that nobody holds any more is
 * removed from the folder; the state stores that run keep their links. A table is not kept if less than a tenth of the
 * disk would stay free, or 10 GiB where a tenth is more.
 */
public final class KeptTables {
    private static final int THREADS = 4;
    private static final int BLOCK = 1 << 20;
    private static final int SHARE = 10; // one part of so many of the disk stays free,
    private static final long ENOUGH = 10L << 30; // and no more than so many bytes
    private static final Logger LOG = LoggerFactory.getLogger("tenure.spark.KeptTables");
    private static final Map HELD = new HashMap(); // holder -> Map of name -> Path; guarded by itself
    private static final Map TABLES = new HashMap(); // name -> Table; guarded by HELD
    private static final ExecutorService POOL = Executors.newFixedThreadPool(THREADS, new Daemons());
    private static volatile File folder; // null: none is kept
    private static volatile Configuration settings;

    private KeptTables() {}

    /** Keep tables in an empty folder on the disk of the state stores. */
    public static void use(String path, Configuration conf) {
        settings = conf;
        folder = new File(path);
    }

    /**
     * Let a holder need these tables, and no others from now on: a line for each, its bytes, a space, and its URL. They
     * are fetched ahead, or when a state store asks for them.
     */
    public static void hold(String holder, String tables, boolean ahead) {
        Map held = new LinkedHashMap(); // name -> Path
        List waiting = new ArrayList();
        List gone;
        synchronized (HELD) {
            String[] lines = tables.isEmpty() ? new String[0] : tables.split("\n");
            for (int i = 0; i < lines.length; i++) {
                int space = lines[i].indexOf(' ');
                long size = Long.parseLong(lines[i].substring(0, space));
                Path origin = new Path(lines[i].substring(space + 1));
                Table table = (Table) TABLES.get(origin.getName());
                if (table == null || table.size != size) {
                    table = new Table(origin.getName(), size);
                }
                held.put(table.name, origin);
                Table other = (Table) TABLES.put(table.name, table);
                if (other != null && other != table) {
                    other.unheld = true;
                }
                if (ahead && !table.queued) {
                    table.queued = true;
                    waiting.add(table);
                }
            }
            HELD.put(holder, held);
            gone = unheld();
        }
        remove(gone);
        for (Iterator each = waiting.iterator(); each.hasNext();) {
            POOL.execute((Table) each.next());
        }
    }

    /** Let a holder need no table any more. */
    public static void release(String holder) {
        List gone;
        synchronized (HELD) {
            HELD.remove(holder);
            gone = unheld();
        }
        remove(gone);
    }

    /** Link a table where a state store wants it. Returns null, or the path from which the caller must copy it. */
    public static Path link(Path from, Path to) throws IOException {
        Table table;
        synchronized (HELD) {
            table = (Table) TABLES.get(from.getName());
        }
        if (table == null) {
            return from;
        }
        try {
            if (table.linked(new File(to.toUri().getPath()))) {
                return null;
            }
        } catch (IOException error) {
            LOG.warn("Not kept: {}", from, error);
        } catch (RuntimeException error) {
            LOG.warn("Not kept: {}", from, error);
        }
        List origins = originsOf(table.name);
        return origins.isEmpty() || from.getFileSystem(settings).exists(from) ? from : (Path) origins.get(0);
    }

    /** Whether a table of so many bytes leaves enough of a disk free. All in bytes. */
    public static boolean fits(long size, long free, long disk) {
        return free - size >= Math.min(disk / SHARE, ENOUGH);
    }

    /** Where the holders know a table to be. */
    private static List originsOf(String name) {
        List origins = new ArrayList();
        synchronized (HELD) {
            for (Iterator each = HELD.values().iterator(); each.hasNext();) {
                Object origin = ((Map) each.next()).get(name);
                if (origin != null) {
                    origins.add(origin);
                }
            }
        }
        return origins;
    }

    /** Take the tables out that no holder needs. The caller holds the lock. */
    private static List unheld() {
        Set needed = new HashSet();
        for (Iterator each = HELD.values().iterator(); each.hasNext();) {
            needed.addAll(((Map) each.next()).keySet());
        }
        List gone = new ArrayList();
        for (Iterator each = TABLES.values().iterator(); each.hasNext();) {
            Table table = (Table) each.next();
            if (!needed.contains(table.name)) {
                table.unheld = true;
                gone.add(table);
                each.remove();
            }
        }
        return gone;
    }

    private static void remove(List tables) {
        for (Iterator each = tables.iterator(); each.hasNext();) {
            ((Table) each.next()).remove();
        }
    }

    /** One table. Its monitor is held while it is fetched, so that it is fetched once. */
    private static final class Table implements Runnable {
        final String name;
        final long size;
        boolean queued = false; // guarded by HELD
        volatile boolean unheld = false;

        Table(String name, long size) {
            this.name = name;
            this.size = size;
        }

        public void run() {
            try {
                kept();
            } catch (IOException error) {
                LOG.warn("Not fetched ahead: {}", name, error);
            } catch (RuntimeException error) {
                LOG.warn("Not fetched ahead: {}", name, error);
            } finally {
                synchronized (HELD) {
                    queued = false;
                }
            }
        }

        /** Link the table; whether that was possible. */
        synchronized boolean linked(File target) throws IOException {
            File kept = kept();
            if (kept == null) {
                return false;
            }
            Files.deleteIfExists(target.toPath());
            Files.deleteIfExists(new File(target.getParentFile(), "." + target.getName() + ".crc").toPath());
            try {
                Files.createLink(target.toPath(), kept.toPath());
            } catch (UnsupportedOperationException none) {
                Files.copy(kept.toPath(), target.toPath(), new CopyOption[0]);
            } catch (IOException refused) {
                Files.copy(kept.toPath(), target.toPath(), new CopyOption[0]);
            }
            return true;
        }

        /** The whole table on the disk; null: it is not kept. */
        private synchronized File kept() throws IOException {
            File into = folder;
            if (into == null || unheld) {
                return null;
            }
            File kept = new File(into, name);
            if (kept.isFile() && kept.length() == size) {
                return kept;
            }
            if (!fits(size, into.getUsableSpace(), into.getTotalSpace())) {
                return null;
            }
            IOException failed = new FileNotFoundException(name);
            for (Iterator each = originsOf(name).iterator(); each.hasNext();) {
                try {
                    fetch((Path) each.next(), kept);
                    return kept;
                } catch (IOException error) {
                    failed = error;
                }
            }
            throw failed;
        }

        private void fetch(Path origin, File kept) throws IOException {
            File part = new File(kept.getParentFile(), name + "." + UUID.randomUUID() + ".part");
            try {
                long length = copied(origin, part);
                if (length != size) {
                    throw new IOException(origin + " has " + length + " bytes, and its snapshot says " + size);
                }
                Files.move(part.toPath(), kept.toPath(), new CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
            } finally {
                part.delete();
            }
        }

        private long copied(Path origin, File part) throws IOException {
            FutureDataInputStreamBuilder builder = origin.getFileSystem(settings).openFile(origin);
            builder.opt("fs.option.openfile.read.policy", "whole-file");
            FSDataInputStream in = (FSDataInputStream) FutureIO.awaitFuture((Future) builder.build());
            try {
                FileOutputStream out = new FileOutputStream(part);
                try {
                    byte[] block = new byte[BLOCK];
                    long length = 0;
                    for (int read = in.read(block); read >= 0; read = in.read(block)) {
                        if (unheld) {
                            throw new IOException("nobody needs " + name + " any more");
                        }
                        out.write(block, 0, read);
                        length += read;
                    }
                    return length;
                } finally {
                    out.close();
                }
            } finally {
                in.close();
            }
        }

        synchronized void remove() {
            File into = folder;
            if (into != null) {
                new File(into, name).delete();
            }
        }
    }

    /** Threads that keep no JVM alive. */
    private static final class Daemons implements ThreadFactory {
        public Thread newThread(Runnable work) {
            Thread thread = new Thread(work, "tenure-tables");
            thread.setDaemon(true);
            return thread;
        }
    }
}
