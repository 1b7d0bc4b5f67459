/** Figures for operators that several rooms keep. */
export * from './histogram.ts';
