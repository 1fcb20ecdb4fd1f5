/** The server: its settings, namespaces, tokens, replicas and store, for administrators. */
import { AdminService } from "@v1/admin_pb";
import { Button } from "../parts/button";
import { Page } from "../parts/page";
import { route } from "../route";
import { may } from "../session";
import { openDrainServer } from "./server/drain_dialog";
import { NamespacePage } from "./server/namespace_page";
import { Namespaces } from "./server/namespaces";
import { Replicas } from "./server/replicas";
import { Settings } from "./server/settings";
import { StoreFigures } from "./server/store_figures";
import { Tokens } from "./server/tokens";
import { Tabs } from "./tabs";

const TABS = [
  { name: "settings", title: "Settings", component: Settings },
  { name: "namespaces", title: "Namespaces", component: Namespaces },
  { name: "tokens", title: "Tokens", component: Tokens },
  { name: "replicas", title: "Replicas", component: Replicas },
  { name: "store", title: "Store", component: StoreFigures },
] as const;

export function Server() {
  const [part, name] = route.value.rest;
  if (part === "namespaces" && name) return <NamespacePage key={name} name={name} />;
  const drain = may(AdminService.method.drainServer) && (
    <Button icon="pause" kind="danger" onPress={openDrainServer}>
      Drain the server
    </Button>
  );
  return (
    <Page title="Server" actions={drain}>
      <Tabs view="server" tabs={TABS} />
    </Page>
  );
}
