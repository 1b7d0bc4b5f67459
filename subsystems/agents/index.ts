import { defineCapability } from '../../kernel/index.ts';

/** Who may use the agent interface: nobody, whoever may use the server, or everybody who can sign. */
export type AgentMode = 'off' | 'guarded' | 'open';

/** Kinds of requests, by what stands behind the id in their path. */
export type AgentRoute = 'call' | 'query' | 'read_state' | 'subnet_call' | 'subnet_query' | 'subnet_read_state';

/** Senders that may create canisters although they have not shown that they may use the server. */
export interface AgentCreators {
  /** True if the anonymous principal may, which then controls what it has created. */
  readonly areAnonymous: boolean;
  readonly principals: readonly Uint8Array[];
  /** True if what is created finds certificates of its data that the host has signed. */
  readonly certifies: boolean;
}

/** A request to a canister or the subnet, its body whole. */
export interface AgentRequest {
  readonly route: AgentRoute;
  /** 2, 3 or 4. */
  readonly version: number;
  /** The id in the path, as it was written. */
  readonly id: string;
  /** An envelope, CBOR. */
  readonly body: Uint8Array;
  /** True if the request may use the server: whoever reaches it by `guarded`, and with `open` who shows the token. */
  readonly isTrusted: boolean;
  /** Called before a management call changes something; what it throws is the answer, and nothing is changed. */
  readonly changing?: ((change: AgentChange) => void) | undefined;
}

/** A change that a management call is about to make. */
export interface AgentChange {
  /** The sender's principal, as text. */
  readonly sender: string;
  /** Principal of the canister in host code, as text. */
  readonly canister: string;
  /** Method of that canister. */
  readonly method: string;
  /** The actor's id in hex; empty for one that is made by it. */
  readonly actorHex: string;
}

/** An answer: CBOR, or without a body 202. */
export interface AgentAnswer {
  readonly status: 200 | 202;
  readonly body: Uint8Array;
  /** The actor and its method, for the log; undefined: the request was not for one. */
  readonly called: { readonly idHex: string; readonly name: string; readonly method: string } | undefined;
  /** Reason of a call or query that was rejected. */
  readonly failure: string | undefined;
}

/**
 * The agent interface of the Internet Computer (`/api/v2` to `/api/v4`): clients of it call actors here, unmodified.
 * Senders prove who they are by signatures; answers are certified with the host's own key.
 */
export interface Agents {
  readonly mode: AgentMode;
  /** Bytes that a body may have. */
  readonly bodyBytesMax: number;
  /** Resolves with the CBOR of `GET /api/v2/status`, which has the root key. */
  status(): Promise<Uint8Array>;
  /**
   * Answers a request. Rejects with ServerError: `agent-bad-request` and `cbor-bad`, `agent-expired`,
   * `agent-forbidden`, `unavailable` ones when there is too much to do.
   */
  answer(request: AgentRequest): Promise<AgentAnswer>;
}
export const Agents = defineCapability<Agents>('agents');
