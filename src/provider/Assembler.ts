export * from "../domain/Assembler.ts"
