export * from './capability.ts';
export * from './clock.ts';
export * from './errors.ts';
export * from './logger.ts';
export * from './plugin.ts';
export * from './random.ts';
export * from './readiness.ts';
