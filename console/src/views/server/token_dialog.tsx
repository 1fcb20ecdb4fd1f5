/** Asks whom a new token is for and what it lets do, and shows its secret, which is never shown again. */
import { useState } from "preact/hooks";
import { api } from "../../api";
import { Button } from "../../parts/button";
import { Copy } from "../../parts/copy";
import { Dialog, FormDialog, openDialog } from "../../parts/dialog";
import { CheckField, SelectField, TextField } from "../../parts/fields";
import { namespace } from "../../route";
import { type GrantDraft, grantOf, newGrant, ROLES, type RoleName } from "./grant_words";

export function openNewToken(onDone: () => void): void {
  openDialog((close) => <TokenDialog close={close} onDone={onDone} />);
}

const LENGTHS = [
  ["", "until it is revoked"],
  ["3600", "an hour"],
  ["86400", "a day"],
  ["604800", "a week"],
  ["2592000", "30 days"],
  ["31536000", "a year"],
] as const;

function TokenDialog({ close, onDone }: { close: () => void; onDone: () => void }) {
  const [name, setName] = useState("");
  const [length, setLength] = useState("2592000");
  const [grants, setGrants] = useState([newGrant(namespace.value)]);
  const setGrant = (at: number) => (grant: GrantDraft) =>
    setGrants((now) => now.map((each, i) => (i === at ? grant : each)));
  const make = async () => {
    const { secret = "" } = await api().tokens.createToken({
      name: name.trim(),
      grants: grants.map(grantOf),
      ttlSecs: length ? Number(length) : undefined,
    });
    onDone();
    openDialog((done) => <Secret name={name.trim()} secret={secret} close={done} />);
  };
  return (
    <FormDialog wide title="New token" submit="Create" close={close} onSubmit={make}>
      <div class="pair">
        <TextField label="Whom or what it is for" value={name} onChange={setName} required autofocus />
        <SelectField label="It holds for" value={length} onChange={setLength} options={LENGTHS} />
      </div>
      {grants.map((grant, at) => (
        <GrantFields key={at} grant={grant} number={at + 1} onChange={setGrant(at)}>
          {grants.length > 1 && (
            <div>
              <Button icon="trash" onPress={() => setGrants((now) => now.filter((_, i) => i !== at))}>
                Remove this grant
              </Button>
            </div>
          )}
        </GrantFields>
      ))}
      <div>
        <Button icon="plus" onPress={() => setGrants((now) => [...now, newGrant(namespace.value)])}>
          Another grant
        </Button>
      </div>
    </FormDialog>
  );
}

interface GrantProps {
  grant: GrantDraft;
  number: number;
  onChange: (grant: GrantDraft) => void;
  children: preact.ComponentChildren;
}

function GrantFields({ grant, number, onChange, children }: GrantProps) {
  const set = (name: keyof GrantDraft) => (value: string | boolean) => onChange({ ...grant, [name]: value });
  const names = "Separated by commas; * at the end is any rest.";
  return (
    <fieldset class="group">
      <legend>Grant {number}</legend>
      <div class="pair">
        <SelectField
          label="Role"
          value={grant.role}
          onChange={(value) => onChange({ ...grant, role: value as RoleName })}
          options={ROLES.map((each) => each.name)}
          hint={ROLES.find((each) => each.name === grant.role)?.words}
        />
        {grant.role !== "admin" && (
          <TextField label="Namespaces" value={grant.namespaces} onChange={set("namespaces")} hint={names} required />
        )}
        {grant.role === "agent" && (
          <TextField
            label="Agents"
            value={grant.agents}
            onChange={set("agents")}
            placeholder="crawler-*"
            hint={names}
            required
          />
        )}
        {grant.role === "host" && (
          <>
            <TextField
              label="Hosts"
              value={grant.hosts}
              onChange={set("hosts")}
              placeholder="gpu-*"
              hint={names}
              required
            />
            <TextField label="Projects" value={grant.projects} onChange={set("projects")} placeholder="any" />
            <TextField label="Actions" value={grant.actions} onChange={set("actions")} placeholder="any" />
          </>
        )}
      </div>
      {grant.role === "viewer" && (
        <CheckField label="Shows params and results" value={grant.payloads} onChange={set("payloads")} />
      )}
      {children}
    </fieldset>
  );
}

function Secret({ name, secret, close }: { name: string; secret: string; close: () => void }) {
  return (
    <Dialog
      title={`The token of ${name}`}
      close={close}
      stays
      footer={
        <Button kind="primary" onPress={close}>
          I have it
        </Button>
      }
    >
      <div class="form">
        <p>Copy it now: the server keeps no more than its digest, and shows it this once.</p>
        <code class="secret">{secret}</code>
        <div>
          <Copy text={secret} label="Copy the token">
            Copy
          </Copy>
        </div>
      </div>
    </Dialog>
  );
}
