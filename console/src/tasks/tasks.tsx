/** Tasks: those that are live, as they change, or those that the server remembers; and what can be done with them. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Task } from "@client/tasks";
import { generation } from "../connection";
import { Button } from "../parts/button";
import { countOf } from "../parts/figures";
import { Empty, Page } from "../parts/page";
import { href, namespace, route, setQuery } from "../route";
import { may } from "../session";
import { isNarrowed, type Query } from "./filter";
import { FilterBar, type FilterBarProps } from "./filter_bar";
import { useHistory } from "./history";
import { LiveTasks } from "./live_tasks";
import { mayDoMany, openMany } from "./many_dialog";
import { maySubmit, openSubmit } from "./submit_dialog";
import { TaskView } from "./task";
import { ALL_DEEDS, begin, can, DEEDS } from "./task_actions";
import { useTargetWaits } from "./target_waits";
import { TaskRows } from "./task_rows";
import "./tasks.css";

export function Tasks() {
  const { rest, query } = route.value;
  if (rest[0]) return <TaskView key={rest[0]} taskId={rest[0]} />;
  return query.history ? <Remembered query={query} /> : <Live query={query} />;
}

function Live({ query }: { query: Query }) {
  useTargetWaits();
  const live = useMemo(() => new LiveTasks(query), [namespace.value]);
  const [isHeld, setHeld] = useState(false);
  const [isInUse, setInUse] = useState(false);
  useEffect(() => () => live.close(), [live]);
  useEffect(() => live.filter(query), [live, JSON.stringify(query)]);
  useEffect(() => {
    if (generation.value) live.reopen();
  }, [generation.value]);
  useEffect(() => live.hold(isHeld || isInUse), [live, isHeld, isInUse]);
  const { tasks, counts, fresh, isListed, error } = live.rows.value;
  const ordered = query.order === "oldest" ? [...tasks].reverse() : tasks;
  return (
    <List
      query={query}
      tasks={ordered}
      counts={counts}
      onBusy={setInUse}
      note={
        <>
          <span class="dim figure">{countOf(tasks.length)} tasks</span>
          {fresh > 0 && <span class="fresh">{countOf(fresh)} new</span>}
          <Button kind="ghost" icon={isHeld ? "play" : "pause"} pressed={isHeld} onPress={() => setHeld(!isHeld)}>
            {isHeld ? "Continue" : "Freeze"}
          </Button>
        </>
      }
      empty={
        error ? (
          <Empty icon="alert" title="The tasks could not be listed">
            {error}
          </Empty>
        ) : isListed ? (
          <Nothing query={query} />
        ) : (
          <div class="loading" role="status" aria-label="Loading" />
        )
      }
    />
  );
}

function Remembered({ query }: { query: Query }) {
  const { tasks, isReading, error, more } = useHistory(query);
  return (
    <List
      query={query}
      tasks={tasks}
      onEnd={more}
      note={
        <span class="dim figure">
          {countOf(tasks.length)} tasks{isReading ? ", reading more" : ""}
        </span>
      }
      empty={
        error ? (
          <Empty icon="alert" title="The history could not be read">
            {error}
          </Empty>
        ) : isReading ? (
          <div class="loading" role="status" aria-label="Loading" />
        ) : (
          <Nothing query={query} />
        )
      }
    />
  );
}

function Nothing({ query }: { query: Query }) {
  if (isNarrowed(query)) return <Empty icon="filter" title="No task matches the filters" />;
  return (
    <Empty icon="list" title="There are no tasks">
      {maySubmit() && (
        <Button kind="primary" icon="plus" onPress={() => openSubmit()}>
          Submit a task
        </Button>
      )}
    </Empty>
  );
}

interface ListProps {
  query: Query;
  tasks: readonly Task[];
  counts?: FilterBarProps["counts"];
  note: preact.ComponentChildren;
  empty: preact.ComponentChildren;
  /** Told whether the list is scrolled or rows are selected, so that it should keep still. */
  onBusy?: (isBusy: boolean) => void;
  onEnd?: () => void;
}

function List({ query, tasks, counts, note, onBusy, ...rows }: ListProps) {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [isScrolled, setScrolled] = useState(false);
  const isBusy = isScrolled || selected.size > 0;
  useEffect(() => onBusy?.(isBusy), [isBusy]);
  const mayAct = ALL_DEEDS.some((deed) => may(DEEDS[deed].method));
  const chosen = selected.size ? tasks.filter((task) => selected.has(task.id)) : [];
  return (
    <Page
      title="Tasks"
      fill
      actions={
        <>
          <div class="switch">
            <a href={href(["tasks"], { ...query, history: "" })} aria-current={query.history ? undefined : "true"}>
              Live
            </a>
            <a href={href(["tasks"], { ...query, history: "1" })} aria-current={query.history ? "true" : undefined}>
              History
            </a>
          </div>
          {mayDoMany() && <Button onPress={() => openMany(query)}>All that match…</Button>}
          {maySubmit() && (
            <Button kind="primary" icon="plus" onPress={() => openSubmit()}>
              Submit
            </Button>
          )}
        </>
      }
    >
      <FilterBar query={query} {...(counts && { counts })} />
      <section class="card flush tasks-card" aria-label="List">
        <header class="tasks-bar">
          {chosen.length ? (
            <>
              <b>{countOf(chosen.length)} selected</b>
              {ALL_DEEDS.map((deed) => {
                const able = chosen.filter((task) => can(deed, task));
                return (
                  <Button key={deed} icon={DEEDS[deed].icon} disabled={!able.length} onPress={() => begin(deed, able)}>
                    {DEEDS[deed].name}
                    {able.length !== chosen.length && able.length > 0 && ` ${able.length}`}
                  </Button>
                );
              })}
              <Button kind="ghost" onPress={() => setSelected(new Set())}>
                Select none
              </Button>
            </>
          ) : (
            <>
              {note}
              <span class="grow" />
              <Button kind="ghost" onPress={() => setQuery({ order: query.order === "oldest" ? "" : "oldest" })}>
                {query.order === "oldest" ? "Oldest first" : "Newest first"}
              </Button>
            </>
          )}
        </header>
        <TaskRows
          tasks={tasks}
          selected={selected}
          onSelect={mayAct ? setSelected : undefined}
          onScrolled={setScrolled}
          {...rows}
        />
      </section>
    </Page>
  );
}
