package dev.taskyard;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The handlers of a host by action, and one for all other actions if there is one. */
final class Actions {
    private final Map<String, Handler> handlers = new ConcurrentHashMap<>();
    private volatile Handler fallback;

    /** @throws IllegalArgumentException if the action has a handler already */
    void add(String action, Handler handler) {
        if (action.isEmpty()) {
            throw new IllegalArgumentException("action: must not be empty");
        }
        if (handlers.putIfAbsent(action, handler) != null) {
            throw new IllegalArgumentException("the action '" + action + "' has a handler already");
        }
    }

    /** @throws IllegalArgumentException if there is one already */
    synchronized void addAny(Handler handler) {
        if (fallback != null) {
            throw new IllegalArgumentException("there is a handler for any action already");
        }
        fallback = handler;
    }

    boolean isEmpty() {
        return handlers.isEmpty() && fallback == null;
    }

    /** The only actions that the host takes; empty if it takes any. */
    List<String> names() {
        return fallback != null ? List.of() : handlers.keySet().stream().sorted().toList();
    }

    /** Null if there is none. */
    Handler handler(String action) {
        return handlers.getOrDefault(action, fallback);
    }
}
