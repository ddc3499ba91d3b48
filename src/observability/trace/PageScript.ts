/**
 * What the page does in a browser. Everything that a run said is put in as text, never as markup; only the rows that are in
 * sight exist.
 *
 * @since 0.1.0
 */
import { base } from "./page/Base.ts"
import { choosing } from "./page/Choosing.ts"
import { details } from "./page/Detail.ts"
import { main } from "./page/Main.ts"
import { overview } from "./page/Overview.ts"
import { rows } from "./page/Rows.ts"

/** One scope for all of it: each part uses what stands before it at once, and what stands behind it later. */
export const script = `\n"use strict";\n(() => {${base}${choosing}${rows}${overview}${details}${main}})();\n`
