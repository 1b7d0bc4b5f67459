/** Layout of records and of changes of memories in bytes: a leaf that depends on the kernel alone. */
export * from './copy-bytes.ts';
export * from './copy-in-slices.ts';
export * from './name-cache.ts';
export * from './no-bytes.ts';
export * from './page.ts';
export * from './page-patch.ts';
export * from './record-bytes.ts';
export * from './shared-bytes.ts';
