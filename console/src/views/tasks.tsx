/** Tasks. */
import { Page } from "../parts/page";

export function Tasks() {
  return <Page title="Tasks">{null}</Page>;
}
