/** A host that attackers try: two actors of one owner, and credentials of each kind that open a part of one of them. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { principalToText } from '../../subsystems/ic/index.ts';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { signed, signingKey } from '../support/oidc-issuer.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { type ChosenToken, writeTokens } from '../support/token-file.ts';
import { compiledActor } from '../subsystems/agents/actor.ts';
import { newSigner } from '../subsystems/agents/raw-agent.ts';

const ISSUER = 'https://issuer.example';
export const ROOT = { authorization: 'Bearer root' };
const ACTORS = ['shop', 'bank'] as const;
export const SHOP_HEX = '80000000001000010101';
export const BANK_HEX = '80000000001000020101';

export interface AttackedHost {
  readonly server: InProcessServer;
  /** Controls both actors. */
  readonly owner: ReturnType<typeof newSigner>;
  /** The id of a snapshot of both. */
  readonly snapshot: string;
  /** The header of a user of the issuer. */
  readonly jwt: { readonly authorization: string };
  /** Resolves with all that an attacker could have changed, and how many messages the actors have executed. */
  state(): Promise<readonly string[]>;
}

interface Attacked {
  readonly agents: 'guarded' | 'open';
  readonly tokens: Readonly<Record<string, ChosenToken>>;
  /** Scopes of users of the issuer. */
  readonly may: string;
}

/** Starts the host. The method `get` of `shop` is public. */
export async function startAttacked(t: TestContext, { agents, tokens, may }: Attacked): Promise<AttackedHost> {
  const key = signingKey('ES256', 'k');
  const keys = join(await temporaryDirectory(), 'keys.json');
  await writeFile(keys, JSON.stringify({ keys: [key.jwk] }));
  const users = ['--jwt-issuer', ISSUER, '--jwt-audience', 'svc', '--jwt-keys', keys, '--jwt-may', may];
  const args = ['--agents', agents, '--auth-token', 'root', '--tokens', await writeTokens(tokens), ...users];
  const server = await startInProcess(t, { args });
  const owner = newSigner();
  const asOwner = { ...ROOT, 'x-caller': principalToText(owner.principal) };
  const asked = async (method: string, path: string, body?: string | Uint8Array, headers = ROOT): Promise<string> => {
    const sent = body === undefined ? {} : { body: typeof body === 'string' ? body : new Uint8Array(body) };
    const response = await server.fetch(path, { method, headers, ...sent });
    const text = await response.text();
    assert.equal(response.status, 200, `${method} ${path}: ${text}`);
    return text;
  };
  const wasm = await compiledActor();
  const snapshots = [];
  for (const name of ACTORS) {
    await asked('POST', `/install/${name}`, wasm, asOwner);
    await asked('POST', `/call-json/${name}/inc`, '[]');
    snapshots.push((JSON.parse(await asked('POST', `/x/actors/${name}/snapshots`)) as { readonly id: string }).id);
  }
  await asked('PUT', '/x/actors/shop/public', '["get"]');
  const state = async (): Promise<readonly string[]> => {
    // The time since the last message, and whether the actor is in memory, are no state of its own.
    const parts = (JSON.parse(await asked('GET', '/inspect')) as Record<string, unknown>[]).map(
      ({ idleMs: _idle, live: _live, ...rest }) => JSON.stringify(rest),
    );
    for (const { name } of JSON.parse(await asked('GET', '/actors')) as { readonly name: string }[])
      for (const part of ['settings', 'public', 'snapshots', 'output'])
        parts.push(`${name} ${await asked('GET', `/x/actors/${name}/${part}`)}`);
    return parts;
  };
  const claims = { iss: ISSUER, aud: 'svc', sub: 'mallory', exp: Math.floor(Date.now() / 1000) + 3600 };
  const jwt = { authorization: `Bearer ${signed(key, claims)}` };
  return { server, owner, snapshot: snapshots[1] ?? '', jwt, state };
}
