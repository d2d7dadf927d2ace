"""The slow twin of the compiled interpreters: Python integers, forward mode, one direction at a time."""

import numpy as np

from ffrank.program.ir import Program, interpret
from ffrank.program.points import draw_points, draw_theta


def point(program: Program, p, seed, counter):
    """θ (counter 0) or the input of that number, for programs without exponentials and roots."""
    theta = draw_theta(program, p, seed)
    return draw_points(program, p, seed, theta, [counter]).inputs[0] if counter else theta


def leaves(program: Program, theta, x):
    values, at = [], 0
    flat = [int(v) for v in theta] + [int(v) for v in x]
    for _, shape in program.parameters + program.inputs:
        size = int(np.prod(shape, dtype=object)) if shape else 1
        values.append(np.array(flat[at : at + size], dtype=object).reshape(shape))
        at += size
    return values


def moved(instruction, a):
    match instruction.op:
        case "reshape":
            return a.reshape(instruction.attribute)
        case "transpose":
            return a.transpose(instruction.attribute)
        case "slice":
            return a[tuple(slice(*t) for t in instruction.attribute)]
        case "broadcast":
            return np.broadcast_to(a, instruction.attribute)
        case "sum":
            return a.sum(axis=instruction.attribute)
        case "neg":
            return -a
    raise AssertionError(instruction.op)


def dual(program: Program, theta, x, direction, p):
    """f and its derivative along a direction of θ, mod p."""
    zero = [0] * program.input_count
    pairs = list(zip(leaves(program, theta, x), leaves(program, direction, zero), strict=True))

    def meaning(instruction, operands):
        return tuple(np.asarray(v, dtype=object) for v in result(instruction, operands))

    def result(instruction, operands):
        match instruction.op:
            case "const":
                shape, values = instruction.attribute
                value = np.array(values, dtype=object).reshape(shape)
                return value, value * 0
            case "add":
                (a, da), (b, db) = operands
                return (a + b) % p, (da + db) % p
            case "mul":
                (a, da), (b, db) = operands
                return a * b % p, (da * b + a * db) % p
            case "matmul":
                (a, da), (b, db) = operands
                return (a @ b) % p, (da @ b + a @ db) % p
            case "pow":
                ((a, da),), k = operands, instruction.attribute
                power = np.frompyfunc(lambda v: pow(int(v), k, p), 1, 1)
                slope = np.frompyfunc(lambda v: k * pow(int(v), k - 1, p), 1, 1)
                return power(a), slope(a) * da % p
            case "concat":
                axis = instruction.attribute
                return tuple(np.concatenate([pair[i] for pair in operands], axis) for i in (0, 1))
            case _:
                a, da = operands[0]
                return moved(instruction, a) % p, moved(instruction, da) % p

    value, slope = interpret(program, pairs, meaning)[program.output]
    return [int(v) % p for v in value.reshape(-1)], [int(v) % p for v in slope.reshape(-1)]


def jacobian(program: Program, theta, x, p):
    """All columns, one directional derivative each; m rows."""
    P = program.parameter_count
    columns = [dual(program, theta, x, [int(i == j) for i in range(P)], p)[1] for j in range(P)]
    return [[column[o] for column in columns] for o in range(program.output_count)]
