/** How records and changes of memories are laid out in bytes: a leaf that stands on the kernel alone. */
export * from './copy-bytes.ts';
export * from './copy-in-slices.ts';
export * from './page.ts';
export * from './page-patch.ts';
export * from './record-bytes.ts';
export * from './shared-bytes.ts';
