/** Server. */
import { Page } from "../parts/page";

export function Server() {
  return <Page title="Server">{null}</Page>;
}
