/** Preloaded into a server: RocksDB's binding then looks for a binary for another processor, and finds none. */
process.env['npm_config_arch'] = 'riscv64';
