/**
 * Takes the disguises off a command that need no understanding of the shell: escape sequences of terminals, invisible and
 * compatibility characters, letters of other scripts that look like Latin ones.
 *
 * Source: `hermes-llm.md` §19.7 (normalisation before matching).
 *
 * @since 0.1.0
 */

/** CSI and OSC sequences, and single escapes. */
const terminal = new RegExp(
  [String.raw`\u001b\[[0-?]*[ -/]*[@-~]`, String.raw`\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?`, String.raw`\u001b[@-Z\\-_]`].join("|"),
  "g"
)
const control = new RegExp(String.raw`[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]`, "g")
const invisible = /[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Variation_Selector}\u{115f}\u{1160}\u{3164}\u{ffa0}]/gu
const dash = /[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]/g
const blank = /[\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/g

/** Cyrillic and Greek letters, each with the Latin one that it looks like. */
const lookalikes = new Map(
  Array.from("аaеeоoрpсcуyхxіiјjѕsԁdһhԛqԝwкkмmтtвbнhгrАAВBЕEКKМMНHОOРPСCТTХXαaεeιiκkνvοoρpτtυuχxωwɡgɩiıiⅼl∕/⁄/".matchAll(/(.)(.)/gu)).map(
    ([, foreign = "", latin = ""]) => [foreign, latin] as const
  )
)
const lookalike = new RegExp(`[${Array.from(lookalikes.keys()).join("")}]`, "gu")

const plain = /^[\t\n\r -~]*$/

/** What the eye takes a command for; the text itself when it is plain ASCII. */
export const normalise = (text: string): string =>
  plain.test(text) ? text : text
    .replace(terminal, "")
    .replace(control, "")
    .replace(blank, " ")
    .normalize("NFKC")
    .replace(invisible, "")
    .replace(dash, "-")
    .replace(lookalike, (char) => lookalikes.get(char) ?? char)

/** Characters that turn the direction of text or that no eye sees, and that no language needs in a command. */
const deceptive = /[\u202a-\u202e\u2066-\u2069\u{e0001}-\u{e007f}]/u

/** Whether the text looks different from what it is. */
export const isDeceptive = (text: string): boolean => deceptive.test(text)
