import type { Plugin } from '../kernel/index.ts';
import { agentsPlugin } from './agents.ts';
import { authPlugin } from './auth.ts';
import { canistersPlugin } from './canisters.ts';
import { clusterPlugin } from './cluster.ts';
import { codecPlugin } from './codec.ts';
import { compatibilityPlugin } from './compatibility.ts';
import { compilerPlugin } from './compiler.ts';
import { executionPlugin } from './execution.ts';
import { gatewayPlugin } from './gateway.ts';
import { hotReloadPlugin } from './hot-reload.ts';
import { httpPlugin } from './http.ts';
import { icFacadePlugin } from './ic-facade.ts';
import { inspectorPlugin } from './inspector.ts';
import { managementPlugin } from './management.ts';
import { manifestPlugin } from './manifest.ts';
import { meteringPlugin } from './metering.ts';
import { metricsPlugin } from './metrics.ts';
import { mopsClosurePlugin } from './mops-closure.ts';
import { openApiPlugin } from './openapi.ts';
import { outcallsPlugin } from './outcalls.ts';
import { rehearsalPlugin } from './rehearsal.ts';
import { replayPlugin } from './replay.ts';
import { schedulerPlugin } from './scheduler.ts';
import { storagePlugin } from './storage.ts';
import { timelinePlugin } from './timeline.ts';
import { variablesPlugin } from './variables.ts';

/** The built-in plugins, in the order in which they start if their requirements leave a choice. */
export const builtinPlugins: readonly Plugin[] = [
  authPlugin,
  meteringPlugin,
  storagePlugin,
  timelinePlugin,
  executionPlugin,
  schedulerPlugin,
  codecPlugin,
  manifestPlugin,
  compilerPlugin,
  compatibilityPlugin,
  rehearsalPlugin,
  replayPlugin,
  canistersPlugin,
  outcallsPlugin,
  managementPlugin,
  metricsPlugin,
  openApiPlugin,
  mopsClosurePlugin,
  variablesPlugin,
  icFacadePlugin,
  agentsPlugin,
  gatewayPlugin,
  inspectorPlugin,
  hotReloadPlugin,
  clusterPlugin,
  httpPlugin,
];
