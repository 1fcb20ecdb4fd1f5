/** The store: where it is, how large, how much room is left; and the commands that only its own machine may give. */
import { api } from "../../api";
import { Copy, Id } from "../../parts/copy";
import { bytesOf, Meter } from "../../parts/figures";
import { Card, Empty, Facts, Loaded } from "../../parts/page";
import { useRead } from "../../reading";

const LOOK_MS = 5_000;

export function StoreFigures() {
  const read = useRead((signal) => api().stats.getStats({}, { signal }), [], LOOK_MS);
  return (
    <Loaded from={read}>
      {({ store }) =>
        store ? (
          <div class="columns">
            <Card title="Store">
              <Facts
                rows={[
                  ["Address", <Id key="url" of={store.url} />],
                  ["Size", bytesOf(store.usedBytes)],
                  ["Free on its disk", bytesOf(store.freeBytes)],
                ]}
              />
              <p class="store-room">
                <Meter label="The disk of the store" value={store.usedBytes} max={store.usedBytes + store.freeBytes} />
                <small class="dim">
                  The store takes {share(store.usedBytes, store.freeBytes)} of what it could. Below{" "}
                  <code>store.minFreeBytes</code> new tasks are refused.
                </small>
              </p>
            </Card>
            <Card title="On the server's machine">
              <p class="dim">
                Checks and backups go over the admin socket, which the server's own user alone can reach, and no page.
              </p>
              <ul class="commands">
                {COMMANDS.map(([command, words]) => (
                  <li key={command}>
                    <span class="dim">{words}</span>
                    <span class="command">
                      <code>{command}</code>
                      <Copy text={command} label={`Copy ${command}`} />
                    </span>
                  </li>
                ))}
              </ul>
            </Card>
          </div>
        ) : (
          <Empty icon="server" title="This server keeps nothing">
            It runs with <code>--store memory://</code>: a restart forgets all tasks.
          </Empty>
        )
      }
    </Loaded>
  );
}

const COMMANDS = [
  ["taskyard store stats", "Rows by table, the last commit"],
  ["taskyard store check", "Looks for damage, while the server goes on"],
  ["taskyard store backup /backup/yard.db", "Writes a copy as of one commit"],
] as const;

function share(used: number, free: number): string {
  const percent = (used / Math.max(1, used + free)) * 100;
  return percent < 1 ? "less than 1 %" : `${Math.round(percent)} %`;
}
