import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AgentInterfaceNeeds } from '../../../subsystems/agents/agent-interface.ts';
import { LazyAgents } from '../../../subsystems/agents/lazy-agents.ts';

test('after the stop nobody starts the interface, whose thread would stay', async () => {
  const needs = new Proxy({}, { get: (_target, name) => assert.fail(`it asks for ${String(name)}`) });
  const creators = { areAnonymous: false, principals: [], certifies: false };
  const options = { isOpen: false, creators, waitMs: 1, version: '0', icRootKey: undefined };
  const agents = new LazyAgents(needs as AgentInterfaceNeeds, options);
  await agents.close();
  const closed = { code: 'certificates-closed' };
  await assert.rejects(agents.rootKey(), closed);
  await assert.rejects(agents.status(), closed);
  await assert.rejects(agents.certify(Uint8Array.of(1), new Uint8Array(32)), closed);
});
