/** Limits. */
import { Page } from "../parts/page";

export function Limits() {
  return <Page title="Limits">{null}</Page>;
}
