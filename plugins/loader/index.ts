/**
 * Plugins from outside (`--plugin <capability>=<module>`): they are found, imported, judged before anything starts, and
 * turned into plugins of the kernel that cannot hold it up forever. They are programs of the operator's choice and run
 * in this process: the checks here are against mistakes, not malice, and work that never returns to the event loop
 * stops the whole server.
 */
export type { LoadedPlugin, PluginRequest } from './loaded-plugin.ts';
export { loadPlugins, type PluginsFound } from './load-plugins.ts';
export { type Composed, composePlugins, type ComposeOptions } from './compose-plugins.ts';
export { type Fault, type FaultOptions, faultText } from './whose-fault.ts';
