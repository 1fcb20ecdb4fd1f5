/** What every view stands in: its title, its actions, and why it shows nothing. */
import type { ComponentChildren } from "preact";
import type { Read } from "../reading";
import { Icon, type IconName } from "./icon";

export interface PageProps {
  title: ComponentChildren;
  /** Buttons at the right of the title. */
  actions?: ComponentChildren;
  /** What stands above the title, such as the way back. */
  above?: ComponentChildren;
  /** Whether it is as high as the window, so that its content scrolls by itself. */
  fill?: boolean;
  children: ComponentChildren;
}

export function Page({ title, actions, above, fill, children }: PageProps) {
  return (
    <div class={`page ${fill ? "fill" : ""}`}>
      {above && <div class="above">{above}</div>}
      <header class="page-head">
        <h1>{title}</h1>
        <div class="actions">{actions}</div>
      </header>
      {children}
    </div>
  );
}

export interface CardProps {
  title?: ComponentChildren;
  actions?: ComponentChildren;
  /** Whether the content reaches to the edges, as tables do. */
  flush?: boolean;
  class?: string;
  children: ComponentChildren;
}

export function Card({ title, actions, flush, class: more = "", children }: CardProps) {
  return (
    <section class={`card ${flush ? "flush" : ""} ${more}`}>
      {(title || actions) && (
        <header class="card-head">
          <h2>{title}</h2>
          <div class="actions">{actions}</div>
        </header>
      )}
      {children}
    </section>
  );
}

export function Empty({
  icon = "list",
  title,
  children,
}: {
  icon?: IconName;
  title: string;
  children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <Icon name={icon} size={28} />
      <p class="empty-title">{title}</p>
      {children && <div class="dim">{children}</div>}
    </div>
  );
}

/** What was read, once it is there. Until then a shimmer; a failure says its reason. */
export function Loaded<T>({ from, children }: { from: Read<T>; children: (value: T) => ComponentChildren }) {
  if (from.value !== undefined) return <>{children(from.value)}</>;
  if (!from.error || from.error.code === "unavailable")
    return <div class="loading" role="status" aria-label="Loading" />;
  return (
    <Empty icon="alert" title={from.error.code === "not_found" ? "Not found" : "This could not be read"}>
      {from.error.reason}
    </Empty>
  );
}

/** Names and values in two columns. Rows without a value are left out. */
export function Facts({ rows }: { rows: readonly (readonly [string, ComponentChildren])[] }) {
  const isGiven = (value: ComponentChildren) =>
    value !== undefined && value !== null && value !== "" && value !== false;
  return (
    <dl class="facts">
      {rows
        .filter(([, value]) => isGiven(value))
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
