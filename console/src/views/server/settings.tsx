/** The settings in force, with the source of each, and the reload of their file. */
import { AdminService, type GetConfigResponse } from "@v1/admin_pb";
import { act, notify } from "../../acting";
import { api } from "../../api";
import { Button } from "../../parts/button";
import { Card, Empty, Loaded } from "../../parts/page";
import { type Column, Table } from "../../parts/table";
import { Ago } from "../../parts/time";
import { useRead } from "../../reading";
import { route, setQuery } from "../../route";
import { may } from "../../session";
import { FilterBar } from "../filter_bar";
import { matching, type SettingRow, sectionOf, settingRows } from "./setting_rows";

const LOOK_MS = 10_000;
const SOURCES = ["file", "environment", "flag", "default"] as const;

export function Settings() {
  const read = useRead((signal) => api().admin.getConfig({}, { signal }), [], LOOK_MS);
  return <Loaded from={read}>{(answer) => <Sections answer={answer} onDone={read.refresh} />}</Loaded>;
}

function Sections({ answer, onDone }: { answer: GetConfigResponse; onDone: () => void }) {
  const { q = "", source = "" } = route.value.query;
  const all = settingRows(answer.config ?? {}, answer.sources);
  const shown = matching(all, q).filter((row) => !source || row.source === source);
  const sections = [...new Set(shown.map((row) => sectionOf(row.key)))];
  const count = (name: string) => all.filter((row) => row.source === name).length;
  return (
    <>
      {answer.error && (
        <p class="form-error" role="alert">
          The file could not be read again, and the earlier settings stay in force: {answer.error}
        </p>
      )}
      <div class="bar">
        <FilterBar
          search={q}
          onSearch={(text) => setQuery({ q: text })}
          placeholder="Key or value"
          label="Source"
          choice={source}
          onChoice={(name) => setQuery({ source: name })}
          choices={SOURCES.map((name) => ({ name, count: count(name) })).filter(
            (each) => each.count || each.name === source,
          )}
        />
        <div class="actions">
          {answer.loadedAt && (
            <span class="dim">
              File read <Ago at={answer.loadedAt} />
            </span>
          )}
          {may(AdminService.method.reloadConfig) && (
            <Button icon="refresh" onPress={() => reload(onDone)} disabled={!answer.loadedAt}>
              Reload the file
            </Button>
          )}
        </div>
      </div>
      {sections.length === 0 && <Empty icon="search" title="No setting matches" />}
      {sections.map((section) => (
        <Card key={section} title={section || "general"} flush class="settings">
          <Table
            label={`Settings of ${section || "the server"}`}
            columns={COLUMNS}
            rows={shown.filter((row) => sectionOf(row.key) === section)}
            rowKey={(row) => row.key}
          />
        </Card>
      ))}
    </>
  );
}

const COLUMNS: Column<SettingRow>[] = [
  { title: "Key", wrap: true, cell: (row) => <code class="setting-key">{row.key}</code> },
  {
    title: "Value",
    wrap: true,
    cell: (row) => (row.text ? <code class="setting">{row.text}</code> : <span class="dim">none</span>),
  },
  {
    title: "Source",
    right: true,
    cell: (row) => <span class={row.source === "default" ? "dim" : "tag accent"}>{row.source}</span>,
  },
];

async function reload(onDone: () => void): Promise<void> {
  let changed: string[] = [];
  let needsRestart: string[] = [];
  const done = await act("The file was read again", async () => {
    ({ changed, needsRestart } = await api().admin.reloadConfig({}));
  });
  if (!done) return;
  notify(changed.length ? `Changed: ${changed.join(", ")}` : "No setting has changed");
  if (needsRestart.length) notify(`Holds after a restart only: ${needsRestart.join(", ")}`, "bad");
  onDone();
}
