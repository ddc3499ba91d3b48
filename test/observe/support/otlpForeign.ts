// OTLP messages read by protobuf's JavaScript implementation, with the public definition of the protocol.
import { readFileSync } from "node:fs"
import protobuf from "protobufjs"

const definition = readFileSync(new URL("./otlp.proto", import.meta.url), "utf8")

const root = new protobuf.Root()
// The definition has the packages of the protocol one after another, and a file has one.
for (const part of definition.split(/^(?=package )/mu).slice(1)) {
  protobuf.parse(`syntax = "proto3";\n${part}`, root)
}
root.resolveAll()

const hex = (value: unknown): unknown =>
  value instanceof Uint8Array
    ? Buffer.from(value).toString("hex")
    : Array.isArray(value)
      ? value.map(hex)
      : typeof value === "object" && value !== null
        ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, hex(inner)]))
        : value

/** The message in `bytes` in the JSON form of OTLP: integers of 64 bits are text, ids are hexadecimal. */
export const decode = (bytes: Buffer, type: string): unknown => {
  const message = root.lookupType(type)
  return hex(message.toObject(message.decode(bytes), { longs: String, enums: Number }))
}
