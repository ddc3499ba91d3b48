#!/usr/bin/env node
// @ts-check
import "./require-node.js"

const main = import.meta.url.endsWith("/src/bin.js") ? "./main.ts" : "./hermes/main.js"
await import(main)
