/**
 * A list whose element `0` is known to the compiler. If the type of an array literal must match both a type parameter
 * and this type, the compiler infers a tuple even if the literal begins with a spread.
 */
export type TupleLike<A> = ReadonlyArray<A> & { readonly 0?: A }
