/** Limits of concurrency keys with their usage, and the weights of agents with their shares. */
import { Page } from "../parts/page";
import { Tabs } from "./tabs";
import { KeyLimits } from "./limits/key_limits";
import { Weights } from "./limits/weights";
import { Demand } from "./limits/demand";

const TABS = [
  { name: "keys", title: "Keys", component: KeyLimits },
  { name: "weights", title: "Weights", component: Weights },
  { name: "pools", title: "Pools", component: Demand },
] as const;

export function Limits() {
  return (
    <Page title="Limits">
      <Tabs view="limits" tabs={TABS} />
    </Page>
  );
}
