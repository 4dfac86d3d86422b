// Why something failed, as the server says it.

import { html, nothing } from "lit";
import { ADMIN, type Problem } from "./server.js";

export function problem({ title, status, code, detail, hint, sqlstate }: Problem) {
  return html`<div class="problem" role="alert">
    <h2>${status ? html`<span>${status}</span>` : nothing} ${title ?? code ?? "It failed"}</h2>
    ${detail ? html`<p>${detail}</p>` : nothing} ${hint ? html`<p class="hint">${hint}</p>` : nothing}
    <p class="quiet">
      ${code ? html`<a href=${new URL(`errors/${code}`, ADMIN).href} target="_blank" rel="noreferrer">What ${code} means</a>` : nothing}
      ${sqlstate ? html` SQLSTATE ${sqlstate}` : nothing}
    </p>
  </div>`;
}
