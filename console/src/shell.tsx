/** The frame around the views: navigation, namespace, theme, who is signed in, outages and notices. */
import { useEffect } from "preact/hooks";
import { dismiss, notices } from "./acting";
import { api } from "./api";
import { isLost } from "./connection";
import { credential } from "./credential";
import { Button } from "./parts/button";
import { Dialogs } from "./parts/dialog";
import { Icon } from "./parts/icon";
import { Empty, Loaded } from "./parts/page";
import { useRead } from "./reading";
import { go, href, isByLink, namespace, route } from "./route";
import { askWho, may, mustSignIn, signOut, who, whyUnknown } from "./session";
import { nextTheme, theme } from "./theme";
import { VIEWS } from "./views";
import { Answer } from "./views/answer";
import { SignIn } from "./views/sign_in";

/** How often the page looks whether a server that went away is back, in milliseconds. */
const LOOK_AGAIN_MS = 1_000;
const COUNT_MS = 5_000;

export function Shell() {
  return (
    <>
      {isByLink.value ? <Answer /> : mustSignIn.value ? <SignIn /> : <Frame />}
      <Dialogs />
      <Notices />
    </>
  );
}

function Frame() {
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to content
      </button>
      <aside class="side">
        <div class="brand">
          <Icon name="pulse" size={18} />
          <span>Taskyard</span>
        </div>
        <NamespacePicker />
        <nav aria-label="Views">
          {VIEWS.filter((view) => may(view.needs)).map((view) => (
            <a
              key={view.name}
              href={href([view.name])}
              aria-current={route.value.view === view.name ? "page" : undefined}
            >
              <Icon name={view.icon} />
              <span>{view.title}</span>
              {view.count && <Count of={view.count} />}
            </a>
          ))}
        </nav>
        <div class="side-foot">
          <span class="who" title={who.value?.credential}>
            {who.value?.name}
          </span>
          <Button kind="ghost" icon={THEME_ICONS[theme.value]} label={`Theme: ${theme.value}`} onPress={nextTheme} />
          {credential.value && <Button kind="ghost" icon="out" label="Sign out" onPress={signOut} />}
        </div>
      </aside>
      <main id="main" tabIndex={-1}>
        {isLost.value && <Outage />}
        <Current />
      </main>
    </div>
  );
}

/** How many there are in a view, read now and then. */
function Count({ of }: { of: (signal: AbortSignal) => Promise<string> }) {
  const { value } = useRead(of, [], COUNT_MS);
  return value ? <span class="tag">{value}</span> : null;
}

const THEME_ICONS = { system: "system", light: "sun", dark: "moon" } as const;

function Current() {
  const view = VIEWS.find(({ name }) => name === route.value.view);
  useEffect(() => {
    document.title = view ? `${view.title} · Taskyard` : "Taskyard";
  }, [view]);
  if (!who.value)
    return <Loaded from={{ value: who.value, error: whyUnknown.value, refresh: askWho }}>{() => null}</Loaded>;
  if (!view)
    return (
      <Empty icon="search" title="There is no such page">
        <a href={href(["now"])}>To the start</a>
      </Empty>
    );
  if (!may(view.needs))
    return (
      <Empty icon="key" title="You may not see this">
        Your grants in the namespace {namespace.value} do not reach so far.
      </Empty>
    );
  return <view.component key={namespace.value} />;
}

function NamespacePicker() {
  const list = useRead((signal) => api().namespaces.listNamespaces({}, { signal }), [], 60_000);
  const names = new Set(list.value?.namespaces.map((each) => each.name ?? ""));
  names.add(namespace.value);
  return (
    <select
      class="namespace"
      aria-label="Namespace"
      value={namespace.value}
      onChange={(event) => go(href([route.value.view], {}, event.currentTarget.value))}
    >
      {[...names].map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

function Outage() {
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && askWho(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <div class="outage" role="status">
      <span class="spinner" />
      The server does not answer. This page goes on by itself once it does.
    </div>
  );
}

function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.value.map(({ id, kind, text }) => (
        <div key={id} class={`notice ${kind}`}>
          <Icon name={kind === "good" ? "check" : "alert"} />
          <span>{text}</span>
          <Button kind="ghost" icon="close" label="Dismiss" onPress={() => dismiss(id)} />
        </div>
      ))}
    </div>
  );
}
