package dev.taskyard;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A TCP proxy before a server, which can hold back what the server says and break all connections. */
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

    /** Lets nothing more through from the server, over the connections that are there now. */
    void mute() {
        mute = true;
    }

    /** Breaks all connections; new ones work, and are not mute. */
    void cut() {
        for (Socket socket : Set.copyOf(open)) {
            try (socket) {
                socket.setSoLinger(true, 0);
            } catch (IOException gone) {
                // Its peer was faster.
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
                // Connections that break are what this proxy is for.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
