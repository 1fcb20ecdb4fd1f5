/** Hosts. */
import { Page } from "../parts/page";

export function Hosts() {
  return <Page title="Hosts">{null}</Page>;
}
