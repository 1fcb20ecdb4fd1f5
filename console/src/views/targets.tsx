/** Targets. */
import { Page } from "../parts/page";

export function Targets() {
  return <Page title="Targets">{null}</Page>;
}
