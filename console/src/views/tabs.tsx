/** The parts of a view, of which one is shown: the one that the address names, else the first. */
import type { FunctionComponent } from "preact";
import { Empty } from "../parts/page";
import { href, route } from "../route";

export interface Tab {
  /** Its word in the address, after that of the view. */
  readonly name: string;
  readonly title: string;
  readonly component: FunctionComponent;
}

export function Tabs({ view, tabs }: { view: string; tabs: readonly Tab[] }) {
  const name = route.value.rest[0] ?? tabs[0]?.name;
  const tab = tabs.find((each) => each.name === name);
  return (
    <>
      <nav class="part-tabs" aria-label={`Parts of ${view}`}>
        {tabs.map((each) => (
          <a key={each.name} href={href([view, each.name])} aria-current={each.name === name ? "page" : undefined}>
            {each.title}
          </a>
        ))}
      </nav>
      {tab ? <tab.component key={tab.name} /> : <Empty icon="search" title="There is no such part" />}
    </>
  );
}
