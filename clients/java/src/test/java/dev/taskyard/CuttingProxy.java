package dev.taskyard;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A TCP proxy in front of a server, which can drop what the server sends and break all connections. */
final class CuttingProxy implements AutoCloseable {
    private final ServerSocket listening;
    private final int upstream;
    private final Set<Socket> open = ConcurrentHashMap.newKeySet();
    private volatile boolean mute;

    CuttingProxy(int upstream) throws IOException {
        this.upstream = upstream;
        listening = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        background(this::accept);
    }

    String address() {
        return "127.0.0.1:" + listening.getLocalPort();
    }

    /** Drops what the server sends over the present connections from now on. */
    void mute() {
        mute = true;
    }

    /** Breaks all connections. New ones work and are not mute. */
    void cut() {
        for (Socket socket : Set.copyOf(open)) {
            try (socket) {
                socket.setSoLinger(true, 0);
            } catch (IOException gone) {
                // The other side has closed it already.
            }
            open.remove(socket);
        }
        mute = false;
    }

    @Override
    public void close() throws IOException {
        listening.close();
        cut();
    }

    private void accept() throws IOException {
        while (true) {
            Socket near = listening.accept();
            Socket far = new Socket("127.0.0.1", upstream);
            open.add(near);
            open.add(far);
            background(() -> pump(near, far, false));
            background(() -> pump(far, near, true));
        }
    }

    private void pump(Socket from, Socket to, boolean mutable) throws IOException {
        try (from;
                to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            byte[] chunk = new byte[64 * 1024];
            for (int count = in.read(chunk); count >= 0; count = in.read(chunk)) {
                if (!(mutable && mute)) {
                    out.write(chunk, 0, count);
                }
            }
        }
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void background(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException broken) {
                // Tests break connections.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
