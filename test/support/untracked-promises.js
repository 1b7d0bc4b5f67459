/**
 * Loaded before each test file: the test runner's hook does not follow promises, which takes an eighth of the time of
 * simulations, and half of some contracts. An error is still told by the test that awaits it; one that nobody awaits
 * fails its file, mostly without the test's name. Nested tests need their `t`, or a suite that begins at once.
 *
 * Plain JavaScript, because threads that run no TypeScript load it, too.
 */
import hooks from 'node:async_hooks';

const { createHook } = hooks;
/** @param {import('node:async_hooks').HookCallbacks} callbacks */
const createWithoutPromises = (callbacks) => createHook({ ...callbacks, trackPromises: false });
Object.assign(hooks, { createHook: createWithoutPromises });
