/** The inspector page. `npm run build:inspector` makes it one file; docs/adr/0040 says how it is isolated. */
import { render } from 'preact';
import { App } from './app.tsx';

const root = document.getElementById('app');
if (root !== null) render(<App />, root);
