// The keyboard's focus, which falls to the body when its element is removed.

/** Gives a lost focus to the main part of the page. */
export function keepFocus(): void {
  if (document.activeElement === document.body) document.querySelector<HTMLElement>("main")?.focus();
}
