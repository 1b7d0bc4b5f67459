import { useLayoutEffect, useState } from 'preact/hooks';
import { recall, remember } from './storage.ts';

const THEMES = ['system', 'dark', 'light'] as const;
type Theme = (typeof THEMES)[number];
const KEY = 'svc-inspector-theme';
const SIGNS: Readonly<Record<Theme, string>> = { system: '◐', dark: '●', light: '○' };

/** Switches between the system's theme, dark and light; this browser remembers the choice. */
export function ThemeButton() {
  const [theme, setTheme] = useState<Theme>(
    () => THEMES.find((name) => name === recall('localStorage', KEY)) ?? 'system',
  );
  useLayoutEffect(() => {
    document.documentElement.dataset['theme'] = theme;
    remember('localStorage', KEY, theme);
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'system';
  return (
    <button
      type="button"
      class="quiet theme"
      title={`Colours: ${theme}`}
      aria-label={`Colours: ${theme}; change to ${next}`}
      onClick={() => setTheme(next)}
    >
      {SIGNS[theme]}
    </button>
  );
}
