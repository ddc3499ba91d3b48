/**
 * The readable part of a Jupyter notebook: its cells in order with their text outputs. Pure.
 *
 * Source: `hermes-product.md` §2.3 ("notebooks are extracted").
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** Text as notebooks keep it: whole or in lines. */
const Source = Schema.Union([Schema.String, Schema.Array(Schema.String)])

const Output = Schema.Struct({
  output_type: Schema.optionalKey(Schema.String),
  text: Schema.optionalKey(Source),
  data: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
  ename: Schema.optionalKey(Schema.String),
  evalue: Schema.optionalKey(Schema.String)
})

const Notebook = Schema.fromJsonString(Schema.Struct({
  cells: Schema.Array(Schema.Struct({
    cell_type: Schema.String,
    source: Source,
    outputs: Schema.optionalKey(Schema.Array(Output))
  }))
}))

const decode = Schema.decodeUnknownOption(Notebook)
const isSource = Schema.is(Source)

const joined = (source: typeof Source.Type): string => typeof source === "string" ? source : source.join("")

const outputText = ({ text, data = {}, ename, evalue }: typeof Output.Type): string => {
  if (text !== undefined) return joined(text)
  if (ename !== undefined) return `${ename}: ${evalue ?? ""}`
  const shown = data["text/plain"]
  if (isSource(shown)) return joined(shown)
  return `[${Object.keys(data).join(", ") || "no text"}]`
}

/** The cells of a notebook as text, or none where the text is not a notebook. */
export const extract = (json: string): Option.Option<string> =>
  Option.map(decode(json), ({ cells }) =>
    cells.map(({ cell_type, source, outputs = [] }, index) => {
      const head = `# [cell ${index + 1}: ${cell_type}]\n${joined(source).trimEnd()}\n`
      return outputs.length === 0
        ? head
        : `${head}# [output of cell ${index + 1}]\n${outputs.map((output) => outputText(output).trimEnd()).join("\n")}\n`
    }).join("\n"))
