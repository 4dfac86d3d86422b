// Styles of an element by way of its object: attributes with styles are refused by the page's
// policy, and Lit's own `styleMap` writes one first.

import { noChange } from "lit";
import { Directive, type ElementPart, directive } from "lit/directive.js";

type Styles = Partial<Record<"top" | "width" | "minWidth" | "height" | "flexGrow", string>>;

class Styled extends Directive {
  render(_styles: Styles): unknown {
    return noChange;
  }

  update(part: ElementPart, [styles]: [Styles]): unknown {
    Object.assign((part.element as HTMLElement).style, styles);
    return noChange;
  }
}

export const styled = directive(Styled);
