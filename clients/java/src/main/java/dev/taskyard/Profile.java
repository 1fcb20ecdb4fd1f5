package dev.taskyard;

import com.electronwill.nightconfig.core.UnmodifiableConfig;
import com.electronwill.nightconfig.core.io.ParsingException;
import com.electronwill.nightconfig.toml.TomlParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** One table {@code [profiles.NAME]} of {@code config.toml}, which names a server and who calls it. */
record Profile(String name, Path folder, Path home, Map<String, String> texts) {
    private static final List<String> TEXTS =
            List.of("address", "namespace", "token", "token_file", "ca", "cert", "key");

    /**
     * Finds the profile of a name, without a name that of {@code default_profile}.
     *
     * @param name the name, null for the default
     * @return null if there is none
     * @throws IllegalArgumentException for a name without a profile, and for a file that is not as it should be
     */
    static Profile find(String name, Map<String, String> environment, Path home) {
        Path file = file(environment, home);
        UnmodifiableConfig config;
        try {
            config = new TomlParser().parse(Files.readString(file));
        } catch (IOException unreadable) {
            // Services run without a readable home: they fail only if they ask for a profile.
            if (name == null) {
                return null;
            }
            throw unknown(name, "cannot read " + unreadable.getMessage());
        } catch (ParsingException broken) {
            // The text of the parser quotes the file, which may hold a token.
            throw new IllegalArgumentException("profile: " + file + " is not TOML");
        }
        Object named = name == null ? config.get(List.of("default_profile")) : name;
        if (named == null) {
            return null;
        }
        if (!(named instanceof String wanted)) {
            throw new IllegalArgumentException("profile: default_profile of " + file + " must be a text");
        }
        Object table = config.get(List.of("profiles")) instanceof UnmodifiableConfig profiles
                ? profiles.get(List.of(wanted))
                : null;
        if (!(table instanceof UnmodifiableConfig found)) {
            throw unknown(wanted, file + " has no table [profiles." + wanted + "]");
        }
        return new Profile(wanted, file.getParent(), home, textsOf(file + ": profiles." + wanted, found));
    }

    /** The name alone: the texts may have a token. */
    @Override
    public String toString() {
        return "Profile[" + name + "]";
    }

    /** One of the texts, null if the profile has none. */
    String text(String key) {
        return texts.get(key);
    }

    /** The same as a path: relative ones begin at the folder of the file, and ~/ is the home folder. */
    Path path(String key) {
        String text = text(key);
        if (text == null) {
            return null;
        }
        return text.startsWith("~/") ? home.resolve(text.substring(2)) : folder.resolve(text);
    }

    private static Map<String, String> textsOf(String where, UnmodifiableConfig table) {
        Map<String, String> texts = new HashMap<>();
        for (UnmodifiableConfig.Entry entry : table.entrySet()) {
            String key = entry.getKey();
            Object value = entry.getValue();
            if (!TEXTS.contains(key)) {
                throw new IllegalArgumentException("profile: " + where + "." + key + ": unknown key");
            }
            if (!(value instanceof String text) || text.isEmpty()) {
                throw new IllegalArgumentException("profile: " + where + "." + key + ": must be a text");
            }
            texts.put(key, text);
        }
        return texts;
    }

    /** The rules of XDG have a relative XDG_CONFIG_HOME ignored. */
    private static Path file(Map<String, String> environment, Path home) {
        Path folder = Path.of(environment.getOrDefault("XDG_CONFIG_HOME", ""));
        return (folder.isAbsolute() ? folder : home.resolve(".config")).resolve("taskyard/config.toml");
    }

    private static IllegalArgumentException unknown(String name, String why) {
        return new IllegalArgumentException("profile: '" + name + "' is unknown: " + why);
    }
}
