/** Tokens that the server keeps: whom each lets in, and until when. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Token, TokenService } from "@v1/token_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { Button } from "../../parts/button";
import { Id } from "../../parts/copy";
import { ask } from "../../parts/dialog";
import { Card, Empty, Loaded } from "../../parts/page";
import { State } from "../../parts/state";
import { type Column, Table } from "../../parts/table";
import { Ago, now } from "../../parts/time";
import { useRead } from "../../reading";
import { route, setQuery } from "../../route";
import { may, who } from "../../session";
import { FilterBar } from "../filter_bar";
import { allPages } from "../paging";
import { grantText } from "./grant_words";
import { openNewToken } from "./token_dialog";

const LOOK_MS = 10_000;

export function Tokens() {
  const { ended = "" } = route.value.query;
  const read = useRead((signal) => readTokens(ended === "ended", signal), [ended], LOOK_MS);
  if (read.error?.code === "conflict")
    return (
      <Empty icon="key" title="There are no tokens here">
        {read.error.reason}
      </Empty>
    );
  return (
    <>
      {who.value?.authentication === false && (
        <p class="hint-bar">
          Calls need no credential at this server, so tokens let nobody in yet. <code>auth.required</code> switches that
          on.
        </p>
      )}
      <div class="bar">
        <FilterBar
          label="Which tokens"
          choice={ended}
          onChoice={(name) => setQuery({ ended: name })}
          choices={[{ name: "ended" }]}
          first="in force"
        />
        {may(TokenService.method.createToken) && (
          <Button icon="plus" kind="primary" onPress={() => openNewToken(read.refresh)}>
            New token
          </Button>
        )}
      </div>
      <Loaded from={read}>
        {(tokens) => (
          <Card flush>
            <Table
              label="Tokens"
              columns={columnsFor(read.refresh)}
              rows={tokens}
              rowKey={(token) => token.tokenId ?? ""}
              empty={<Empty icon="key" title={ended ? "No token has ended" : "No token has been made"} />}
            />
          </Card>
        )}
      </Loaded>
    </>
  );
}

function columnsFor(onDone: () => void): Column<Token>[] {
  return [
    {
      title: "Token",
      sortBy: (token) => token.name ?? "",
      cell: (token) => (
        <span class="two-lines">
          <span>
            {token.name} {token.tokenId === who.value?.credential && <span class="tag accent">yours</span>}
          </span>
          <small class="dim">
            <Id of={token.tokenId ?? ""} short={12} />
          </small>
        </span>
      ),
    },
    {
      title: "Grants",
      wrap: true,
      cell: (token) => (
        <span class="two-lines">
          {token.grants.map((grant) => (
            <span key={grantText(grant)}>{grantText(grant)}</span>
          ))}
        </span>
      ),
    },
    {
      title: "State",
      wideOnly: true,
      sortBy: stateOf,
      cell: (token) => <State of={stateOf(token)} tone={isInForce(token) ? "good" : "off"} />,
    },
    {
      title: "Last used",
      right: true,
      sortBy: (token) => ms(token.lastUsedAt),
      cell: (token) => <Ago at={token.lastUsedAt} />,
    },
    {
      title: "Ends",
      right: true,
      wideOnly: true,
      sortBy: (token) => (token.expiresAt ? ms(token.expiresAt) : Number.POSITIVE_INFINITY),
      cell: (token) => (token.expiresAt ? <Ago at={token.expiresAt} /> : <span class="dim">never</span>),
    },
    {
      title: "Made",
      right: true,
      wideOnly: true,
      sortBy: (token) => ms(token.createdAt),
      cell: (token) => <Ago at={token.createdAt} />,
    },
    {
      title: "Actions",
      right: true,
      cell: (token) =>
        isInForce(token) &&
        may(TokenService.method.revokeToken) && (
          <span class="row-actions">
            <Button kind="danger" onPress={() => revoke(token, onDone)}>
              Revoke
            </Button>
          </span>
        ),
    },
  ];
}

function revoke(token: Token, onDone: () => void): void {
  const isOwn = token.tokenId === who.value?.credential;
  ask({
    title: `Revoke ${token.name}?`,
    text: isOwn
      ? "It is your own: you are signed out at once, and can come back with another one only."
      : "It lets nobody in any more, at once and for good, and the streams that it opened end.",
    submit: "Revoke",
    danger: true,
    onSubmit: async () => {
      await api().tokens.revokeToken({ tokenId: token.tokenId ?? "" });
      await act(`${token.name} is revoked`, async () => onDone());
    },
  });
}

function stateOf(token: Token): string {
  if (token.revokedAt) return "revoked";
  return isInForce(token) ? "in force" : "expired";
}

function isInForce(token: Token): boolean {
  return !token.revokedAt && (!token.expiresAt || timestampMs(token.expiresAt) > now.value);
}

function ms(time: Token["createdAt"]): number {
  return time ? timestampMs(time) : 0;
}

function readTokens(onlyEnded: boolean, signal: AbortSignal): Promise<Token[]> {
  return allPages(async (pageToken) => {
    const answer = await api().tokens.listTokens({ pageToken, includeEnded: onlyEnded }, { signal });
    const items = onlyEnded ? answer.tokens.filter((token) => !isInForce(token)) : answer.tokens;
    return { items, next: answer.nextPageToken };
  });
}
