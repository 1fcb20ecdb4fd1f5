/** Schedules. */
import { Page } from "../parts/page";

export function Schedules() {
  return <Page title="Schedules">{null}</Page>;
}
