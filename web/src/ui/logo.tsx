/** Logo: three panes of glass, and a ray that is refracted. */
export function Logo() {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
      <path d="M3 24V11l8-5v13z" fill="currentColor" opacity=".3" />
      <path d="M11.5 26V13l8-5v13z" fill="currentColor" opacity=".55" />
      <path d="M20 28V15l8-5v13z" fill="currentColor" opacity=".9" />
      <path d="M1 14.5l6.5 1 8 2 8 2.6L31 24" fill="none" class="ray" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
