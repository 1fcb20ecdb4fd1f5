/** Now. */
import { Page } from "../parts/page";

export function Now() {
  return <Page title="Now">{null}</Page>;
}
